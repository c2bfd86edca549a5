// The part of the CUDA driver API that this package calls, declared here so
// that building needs no CUDA toolkit. Numbers and layouts are the ABI of
// libcuda, which NVIDIA keeps stable; the sizes are checked in shim.c.
//
// Every function returns a CUresult, 0 for success. The functions that take a
// context make it current on the calling thread first, because a goroutine may
// come from another thread at every call; if that fails they return the
// negative of cuCtxSetCurrent's result.

#ifndef NVLS_CUDA_SHIM_H
#define NVLS_CUDA_SHIM_H

#include <stddef.h>
#include <stdint.h>

// Driver handles are pointers in C and plain numbers in Go: they lie in the
// driver's own heap and Go must never look behind them.
typedef uintptr_t cu_handle; // CUcontext, CUstream, CUevent, CUmodule, CUfunction, CUgraph, CUgraphExec
typedef unsigned long long cu_ptr; // CUdeviceptr
typedef unsigned long long cu_mem; // CUmemGenericAllocationHandle

enum {
	CU_SUCCESS = 0,

	CU_STREAM_NON_BLOCKING = 1,
	CU_STREAM_CAPTURE_MODE_RELAXED = 2,

	CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 1,
	CU_MEM_HANDLE_TYPE_FABRIC = 8,
	CU_MEM_ALLOCATION_TYPE_PINNED = 1,
	CU_MEM_LOCATION_TYPE_DEVICE = 1,
	CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3,
	CU_GRANULARITY_MINIMUM = 0, // of allocations and of multicast objects alike
	CU_GRANULARITY_RECOMMENDED = 1,

	CU_JIT_INFO_LOG_BUFFER = 3,
	CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES = 4,
	CU_JIT_ERROR_LOG_BUFFER = 5,
	CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6,

	CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
	CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
	CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3,
	CU_FUNC_ATTRIBUTE_NUM_REGS = 4,
	CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,

	CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
	CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
	CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38,
	CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
	CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
	CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH = 95,
	CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102,
	CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED = 103,
	CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR = 106,
	CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED = 128,
	CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED = 132,
};

typedef struct {
	int type;
	int id;
} cu_mem_location;

typedef struct {
	int type;
	int requestedHandleTypes;
	cu_mem_location location;
	void *win32HandleMetaData;
	struct {
		unsigned char compressionType;
		unsigned char gpuDirectRDMACapable;
		unsigned short usage;
		unsigned char reserved[4];
	} allocFlags;
} cu_mem_allocation_prop;

typedef struct {
	cu_mem_location location;
	int flags;
} cu_mem_access_desc;

typedef struct {
	unsigned int numDevices;
	size_t size;
	unsigned long long handleTypes;
	unsigned long long flags;
} cu_multicast_object_prop;

// The entry points by the names under which libcuda exports them. The suffix
// _v2 is part of the ABI: the name without it is an older signature.
#define CUDA_ENTRY_POINTS(X) \
	X(cuInit, (unsigned int flags)) \
	X(cuDriverGetVersion, (int *version)) \
	X(cuGetErrorName, (int error, const char **name)) \
	X(cuGetErrorString, (int error, const char **text)) \
	X(cuDeviceGetCount, (int *count)) \
	X(cuDeviceGet, (int *device, int ordinal)) \
	X(cuDeviceGetName, (char *name, int len, int device)) \
	X(cuDeviceGetUuid_v2, (void *uuid, int device)) \
	X(cuDeviceGetPCIBusId, (char *id, int len, int device)) \
	X(cuDeviceTotalMem_v2, (size_t *bytes, int device)) \
	X(cuDeviceGetAttribute, (int *value, int attribute, int device)) \
	X(cuDevicePrimaryCtxRetain, (cu_handle *ctx, int device)) \
	X(cuDevicePrimaryCtxRelease_v2, (int device)) \
	X(cuCtxGetCurrent, (cu_handle *ctx)) \
	X(cuCtxSetCurrent, (cu_handle ctx)) \
	X(cuMemGetInfo_v2, (size_t *free, size_t *total)) \
	X(cuMemGetAllocationGranularity, (size_t *granularity, const cu_mem_allocation_prop *prop, int option)) \
	X(cuMemCreate, (cu_mem *handle, size_t size, const cu_mem_allocation_prop *prop, unsigned long long flags)) \
	X(cuMemRelease, (cu_mem handle)) \
	X(cuMemExportToShareableHandle, (void *shareable, cu_mem handle, int type, unsigned long long flags)) \
	X(cuMemImportFromShareableHandle, (cu_mem *handle, void *shareable, int type)) \
	X(cuMemAddressReserve, (cu_ptr *ptr, size_t size, size_t alignment, cu_ptr addr, unsigned long long flags)) \
	X(cuMemAddressFree, (cu_ptr ptr, size_t size)) \
	X(cuMemMap, (cu_ptr ptr, size_t size, size_t offset, cu_mem handle, unsigned long long flags)) \
	X(cuMemSetAccess, (cu_ptr ptr, size_t size, const cu_mem_access_desc *desc, size_t count)) \
	X(cuMemUnmap, (cu_ptr ptr, size_t size)) \
	X(cuMemcpyHtoDAsync_v2, (cu_ptr dst, const void *src, size_t bytes, cu_handle stream)) \
	X(cuMemcpyDtoHAsync_v2, (void *dst, cu_ptr src, size_t bytes, cu_handle stream)) \
	X(cuMemcpyAsync, (cu_ptr dst, cu_ptr src, size_t bytes, cu_handle stream)) \
	X(cuMemsetD32Async, (cu_ptr dst, unsigned int value, size_t n, cu_handle stream)) \
	X(cuModuleLoadDataEx, (cu_handle *module, const void *image, unsigned int n, int *options, void **values)) \
	X(cuModuleUnload, (cu_handle module)) \
	X(cuModuleGetFunction, (cu_handle *function, cu_handle module, const char *name)) \
	X(cuFuncGetAttribute, (int *value, int attribute, cu_handle function)) \
	X(cuFuncSetAttribute, (cu_handle function, int attribute, int value)) \
	X(cuLaunchKernel, (cu_handle f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared, cu_handle stream, void **params, void **extra)) \
	X(cuStreamCreate, (cu_handle *stream, unsigned int flags)) \
	X(cuStreamDestroy_v2, (cu_handle stream)) \
	X(cuStreamQuery, (cu_handle stream)) \
	X(cuStreamSynchronize, (cu_handle stream)) \
	X(cuStreamWaitEvent, (cu_handle stream, cu_handle event, unsigned int flags)) \
	X(cuStreamBeginCapture_v2, (cu_handle stream, int mode)) \
	X(cuStreamEndCapture, (cu_handle stream, cu_handle *graph)) \
	X(cuGraphInstantiateWithFlags, (cu_handle *exec, cu_handle graph, unsigned long long flags)) \
	X(cuGraphDestroy, (cu_handle graph)) \
	X(cuGraphExecDestroy, (cu_handle exec)) \
	X(cuGraphLaunch, (cu_handle exec, cu_handle stream)) \
	X(cuEventCreate, (cu_handle *event, unsigned int flags)) \
	X(cuEventDestroy_v2, (cu_handle event)) \
	X(cuEventRecord, (cu_handle event, cu_handle stream)) \
	X(cuEventElapsedTime, (float *ms, cu_handle start, cu_handle end))

// Entry points that older drivers lack and that can be done without:
// cuEventElapsedTime_v2 came with CUDA 12.8, cuFuncLoad with 12.4.
#define CUDA_OPTIONAL_ENTRY_POINTS(X) \
	X(cuEventElapsedTime_v2, (float *ms, cu_handle start, cu_handle end)) \
	X(cuFuncLoad, (cu_handle function))

// Multicast stands apart: this table is resolved on the first multicast call
// and never while a site switch is on.
#define MULTICAST_ENTRY_POINTS(X) \
	X(cuMulticastGetGranularity, (size_t *granularity, const cu_multicast_object_prop *prop, int option)) \
	X(cuMulticastCreate, (cu_mem *handle, const cu_multicast_object_prop *prop)) \
	X(cuMulticastAddDevice, (cu_mem handle, int device)) \
	X(cuMulticastBindMem, (cu_mem mc, size_t mcOffset, cu_mem mem, size_t memOffset, size_t size, unsigned long long flags)) \
	X(cuMulticastUnbind, (cu_mem mc, int device, size_t mcOffset, size_t size))

#define CUDA_ENTRY_POINT_FIELD(name, params) int (*name) params;
typedef struct {
	CUDA_ENTRY_POINTS(CUDA_ENTRY_POINT_FIELD)
	CUDA_OPTIONAL_ENTRY_POINTS(CUDA_ENTRY_POINT_FIELD)
} cuda_api;
typedef struct {
	MULTICAST_ENTRY_POINTS(CUDA_ENTRY_POINT_FIELD)
} multicast_api;
#undef CUDA_ENTRY_POINT_FIELD

// cuda_resolve and multicast_resolve fill a table from an opened library. They
// return the name of the first entry point that the library lacks, or NULL.
const char *cuda_resolve(void *library, cuda_api *api);
const char *multicast_resolve(void *library, multicast_api *mc);

// cuda_open is dlopen; on failure it returns NULL and writes the reason to err.
void *cuda_open(const char *path, char *err, size_t len);

int cuda_init(const cuda_api *api);
int cuda_driver_version(const cuda_api *api, int *version);
const char *cuda_error_name(const cuda_api *api, int code);
const char *cuda_error_text(const cuda_api *api, int code);

int cuda_device_count(const cuda_api *api, int *count);
int cuda_device_get(const cuda_api *api, int ordinal, int *device);
int cuda_device_name(const cuda_api *api, int device, char *name, int len);
int cuda_device_uuid(const cuda_api *api, int device, unsigned char *uuid);
int cuda_device_pci(const cuda_api *api, int device, char *id, int len);
int cuda_device_memory(const cuda_api *api, int device, size_t *bytes);
int cuda_device_attribute(const cuda_api *api, int device, int attribute, int *value);
int cuda_context_retain(const cuda_api *api, int device, cu_handle *ctx);
int cuda_context_release(const cuda_api *api, int device);

int cuda_mem_info(const cuda_api *api, cu_handle ctx, size_t *free, size_t *total);
int cuda_mem_granularity(const cuda_api *api, int device, int option, size_t *granularity);
int cuda_mem_create(const cuda_api *api, cu_handle ctx, int device, size_t bytes, cu_mem *handle);
// cuda_mem_create_fabric asks for memory with a FABRIC handle; for explanations only.
int cuda_mem_create_fabric(const cuda_api *api, cu_handle ctx, int device, size_t bytes, cu_mem *handle);
int cuda_mem_release(const cuda_api *api, cu_handle ctx, cu_mem handle);
int cuda_mem_export(const cuda_api *api, cu_handle ctx, cu_mem handle, int *fd);
int cuda_mem_import(const cuda_api *api, cu_handle ctx, int fd, cu_mem *handle);
int cuda_address_reserve(const cuda_api *api, cu_handle ctx, size_t bytes, size_t alignment, cu_ptr *ptr);
int cuda_address_free(const cuda_api *api, cu_handle ctx, cu_ptr ptr, size_t bytes);
int cuda_mem_map(const cuda_api *api, cu_handle ctx, cu_ptr ptr, size_t bytes, cu_mem handle);
int cuda_mem_set_access(const cuda_api *api, cu_handle ctx, cu_ptr ptr, size_t bytes, int device);
int cuda_mem_unmap(const cuda_api *api, cu_handle ctx, cu_ptr ptr, size_t bytes);

// The two copies enqueue on stream and wait for it. Host memory is not touched
// after they return. *waited tells whether the failure is that of the wait.
int cuda_copy_to_device(const cuda_api *api, cu_handle ctx, cu_ptr dst, const void *src, size_t bytes, cu_handle stream, int *waited);
int cuda_copy_to_host(const cuda_api *api, cu_handle ctx, void *dst, cu_ptr src, size_t bytes, cu_handle stream, int *waited);

// cuda_module_load compiles the NUL-terminated PTX. info and error receive
// NUL-terminated logs; each has room for len bytes.
int cuda_module_load(const cuda_api *api, cu_handle ctx, const char *ptx, char *info, char *error, size_t len, cu_handle *module);
int cuda_module_unload(const cuda_api *api, cu_handle ctx, cu_handle module);
int cuda_module_function(const cuda_api *api, cu_handle ctx, cu_handle module, const char *name, cu_handle *function);
int cuda_function_load(const cuda_api *api, cu_handle ctx, cu_handle function);
int cuda_function_attribute(const cuda_api *api, cu_handle ctx, cu_handle function, int attribute, int *value);
int cuda_function_allow_shared(const cuda_api *api, cu_handle ctx, cu_handle function, int bytes);

int cuda_launch(const cuda_api *api, cu_handle ctx, cu_handle function, unsigned int grid, unsigned int block, unsigned int shared, cu_handle stream, const unsigned char *args, size_t len);
int cuda_copy_async(const cuda_api *api, cu_handle ctx, cu_ptr dst, cu_ptr src, size_t bytes, cu_handle stream);
int cuda_set32_async(const cuda_api *api, cu_handle ctx, cu_ptr dst, unsigned int value, size_t n, cu_handle stream);

int cuda_stream_create(const cuda_api *api, cu_handle ctx, cu_handle *stream);
int cuda_stream_destroy(const cuda_api *api, cu_handle ctx, cu_handle stream);
int cuda_stream_query(const cuda_api *api, cu_handle ctx, cu_handle stream);
int cuda_stream_synchronize(const cuda_api *api, cu_handle ctx, cu_handle stream);
int cuda_stream_wait_event(const cuda_api *api, cu_handle ctx, cu_handle stream, cu_handle event);
int cuda_capture_begin(const cuda_api *api, cu_handle ctx, cu_handle stream);
int cuda_capture_end(const cuda_api *api, cu_handle ctx, cu_handle stream, cu_handle *graph);
int cuda_graph_instantiate(const cuda_api *api, cu_handle ctx, cu_handle graph, cu_handle *exec);
int cuda_graph_destroy(const cuda_api *api, cu_handle ctx, cu_handle graph);
int cuda_graph_exec_destroy(const cuda_api *api, cu_handle ctx, cu_handle exec);
int cuda_graph_launch(const cuda_api *api, cu_handle ctx, cu_handle exec, cu_handle stream);

int cuda_event_create(const cuda_api *api, cu_handle ctx, cu_handle *event);
int cuda_event_destroy(const cuda_api *api, cu_handle ctx, cu_handle event);
int cuda_event_record(const cuda_api *api, cu_handle ctx, cu_handle event, cu_handle stream);
int cuda_event_elapsed(const cuda_api *api, cu_handle ctx, cu_handle start, cu_handle end, float *ms);

int multicast_granularity(const cuda_api *api, const multicast_api *mc, cu_handle ctx, unsigned int devices, size_t bytes, int option, size_t *granularity);
int multicast_create(const cuda_api *api, const multicast_api *mc, cu_handle ctx, unsigned int devices, size_t bytes, cu_mem *handle);
int multicast_add_device(const cuda_api *api, const multicast_api *mc, cu_handle ctx, cu_mem handle, int device);
int multicast_bind(const cuda_api *api, const multicast_api *mc, cu_handle ctx, cu_mem handle, size_t mcOffset, cu_mem mem, size_t memOffset, size_t bytes);
int multicast_unbind(const cuda_api *api, const multicast_api *mc, cu_handle ctx, cu_mem handle, int device, size_t mcOffset, size_t bytes);

#endif
