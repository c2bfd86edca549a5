#include "shim.h"

#include <dlfcn.h>
#include <string.h>

_Static_assert(sizeof(cu_mem_location) == 8, "CUmemLocation");
_Static_assert(sizeof(cu_mem_allocation_prop) == 32, "CUmemAllocationProp");
_Static_assert(offsetof(cu_mem_allocation_prop, allocFlags) == 24, "CUmemAllocationProp.allocFlags");
_Static_assert(sizeof(cu_mem_access_desc) == 12, "CUmemAccessDesc");
_Static_assert(sizeof(cu_multicast_object_prop) == 32, "CUmulticastObjectProp");
_Static_assert(offsetof(cu_multicast_object_prop, handleTypes) == 16, "CUmulticastObjectProp.handleTypes");

typedef struct {
	const char *name;
	size_t offset;
	int optional;
} entry_point;

#define REQUIRED(name, params) {#name, offsetof(cuda_api, name), 0},
#define OPTIONAL(name, params) {#name, offsetof(cuda_api, name), 1},
static const entry_point cuda_entry_points[] = {
	CUDA_ENTRY_POINTS(REQUIRED)
	CUDA_OPTIONAL_ENTRY_POINTS(OPTIONAL)
};
#define MULTICAST(name, params) {#name, offsetof(multicast_api, name), 0},
static const entry_point multicast_entry_points[] = {
	MULTICAST_ENTRY_POINTS(MULTICAST)
};

static const char *resolve(void *library, void *table, const entry_point *entries, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		void *address = dlsym(library, entries[i].name);
		if (!address && !entries[i].optional)
			return entries[i].name;
		memcpy((char *)table + entries[i].offset, &address, sizeof address);
	}
	return NULL;
}

const char *cuda_resolve(void *library, cuda_api *api)
{
	return resolve(library, api, cuda_entry_points, sizeof cuda_entry_points / sizeof *cuda_entry_points);
}

const char *multicast_resolve(void *library, multicast_api *mc)
{
	return resolve(library, mc, multicast_entry_points, sizeof multicast_entry_points / sizeof *multicast_entry_points);
}

// The driver is asked which context is current, and no copy of that is kept:
// another library in the process (NCCL) may change it behind our back.
static int make_current(const cuda_api *api, cu_handle ctx)
{
	cu_handle current = 0;
	if (api->cuCtxGetCurrent(&current) == CU_SUCCESS && current == ctx)
		return CU_SUCCESS;
	return -api->cuCtxSetCurrent(ctx);
}

// IN calls an entry point in a context.
#define IN(ctx, call) \
	do { \
		int code = make_current(api, ctx); \
		return code ? code : api->call; \
	} while (0)

void *cuda_open(const char *path, char *err, size_t len)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		const char *why = dlerror();
		strncpy(err, why ? why : "unknown reason", len - 1);
		err[len - 1] = 0;
	}
	return library;
}

int cuda_init(const cuda_api *api) { return api->cuInit(0); }
int cuda_driver_version(const cuda_api *api, int *version) { return api->cuDriverGetVersion(version); }

const char *cuda_error_name(const cuda_api *api, int code)
{
	const char *s = NULL;
	return api->cuGetErrorName(code, &s) == CU_SUCCESS ? s : NULL;
}

const char *cuda_error_text(const cuda_api *api, int code)
{
	const char *s = NULL;
	return api->cuGetErrorString(code, &s) == CU_SUCCESS ? s : NULL;
}

int cuda_device_count(const cuda_api *api, int *count) { return api->cuDeviceGetCount(count); }
int cuda_device_get(const cuda_api *api, int ordinal, int *device) { return api->cuDeviceGet(device, ordinal); }
int cuda_device_name(const cuda_api *api, int device, char *name, int len) { return api->cuDeviceGetName(name, len, device); }
int cuda_device_uuid(const cuda_api *api, int device, unsigned char *uuid) { return api->cuDeviceGetUuid_v2(uuid, device); }
int cuda_device_pci(const cuda_api *api, int device, char *id, int len) { return api->cuDeviceGetPCIBusId(id, len, device); }
int cuda_device_memory(const cuda_api *api, int device, size_t *bytes) { return api->cuDeviceTotalMem_v2(bytes, device); }
int cuda_device_attribute(const cuda_api *api, int device, int attribute, int *value) { return api->cuDeviceGetAttribute(value, attribute, device); }
int cuda_context_retain(const cuda_api *api, int device, cu_handle *ctx) { return api->cuDevicePrimaryCtxRetain(ctx, device); }
int cuda_context_release(const cuda_api *api, int device) { return api->cuDevicePrimaryCtxRelease_v2(device); }

int cuda_mem_info(const cuda_api *api, cu_handle ctx, size_t *free, size_t *total) { IN(ctx, cuMemGetInfo_v2(free, total)); }

static cu_mem_allocation_prop allocation_prop(int device)
{
	cu_mem_allocation_prop prop;
	memset(&prop, 0, sizeof prop);
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.location.id = device;
	return prop;
}

int cuda_mem_granularity(const cuda_api *api, int device, int option, size_t *granularity)
{
	cu_mem_allocation_prop prop = allocation_prop(device);
	return api->cuMemGetAllocationGranularity(granularity, &prop, option);
}

int cuda_mem_create(const cuda_api *api, cu_handle ctx, int device, size_t bytes, cu_mem *handle)
{
	cu_mem_allocation_prop prop = allocation_prop(device);
	IN(ctx, cuMemCreate(handle, bytes, &prop, 0));
}

int cuda_mem_create_fabric(const cuda_api *api, cu_handle ctx, int device, size_t bytes, cu_mem *handle)
{
	cu_mem_allocation_prop prop = allocation_prop(device);
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
	IN(ctx, cuMemCreate(handle, bytes, &prop, 0));
}

int cuda_mem_release(const cuda_api *api, cu_handle ctx, cu_mem handle) { IN(ctx, cuMemRelease(handle)); }
int cuda_mem_export(const cuda_api *api, cu_handle ctx, cu_mem handle, int *fd) { IN(ctx, cuMemExportToShareableHandle(fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0)); }
int cuda_mem_import(const cuda_api *api, cu_handle ctx, int fd, cu_mem *handle) { IN(ctx, cuMemImportFromShareableHandle(handle, (void *)(uintptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)); }
int cuda_address_reserve(const cuda_api *api, cu_handle ctx, size_t bytes, size_t alignment, cu_ptr *ptr) { IN(ctx, cuMemAddressReserve(ptr, bytes, alignment, 0, 0)); }
int cuda_address_free(const cuda_api *api, cu_handle ctx, cu_ptr ptr, size_t bytes) { IN(ctx, cuMemAddressFree(ptr, bytes)); }
int cuda_mem_map(const cuda_api *api, cu_handle ctx, cu_ptr ptr, size_t bytes, cu_mem handle) { IN(ctx, cuMemMap(ptr, bytes, 0, handle, 0)); }

int cuda_mem_set_access(const cuda_api *api, cu_handle ctx, cu_ptr ptr, size_t bytes, int device)
{
	cu_mem_access_desc desc = {{CU_MEM_LOCATION_TYPE_DEVICE, device}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	IN(ctx, cuMemSetAccess(ptr, bytes, &desc, 1));
}

int cuda_mem_unmap(const cuda_api *api, cu_handle ctx, cu_ptr ptr, size_t bytes) { IN(ctx, cuMemUnmap(ptr, bytes)); }

// A copy between pageable host memory and the device may return before the data
// has arrived, so the stream is waited for in any case.
static int finish(const cuda_api *api, int code, cu_handle stream, int *waited)
{
	*waited = code == CU_SUCCESS;
	return code ? code : api->cuStreamSynchronize(stream);
}

int cuda_copy_to_device(const cuda_api *api, cu_handle ctx, cu_ptr dst, const void *src, size_t bytes, cu_handle stream, int *waited)
{
	int code = make_current(api, ctx);
	*waited = 0;
	return code ? code : finish(api, api->cuMemcpyHtoDAsync_v2(dst, src, bytes, stream), stream, waited);
}

int cuda_copy_to_host(const cuda_api *api, cu_handle ctx, void *dst, cu_ptr src, size_t bytes, cu_handle stream, int *waited)
{
	int code = make_current(api, ctx);
	*waited = 0;
	return code ? code : finish(api, api->cuMemcpyDtoHAsync_v2(dst, src, bytes, stream), stream, waited);
}

int cuda_module_load(const cuda_api *api, cu_handle ctx, const char *ptx, char *info, char *error, size_t len, cu_handle *module)
{
	int options[] = {
		CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
		CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
	};
	// Sizes travel in the pointers themselves.
	void *values[] = {info, (void *)len, error, (void *)len};
	info[0] = error[0] = 0;
	IN(ctx, cuModuleLoadDataEx(module, ptx, 4, options, values));
}

int cuda_module_unload(const cuda_api *api, cu_handle ctx, cu_handle module) { IN(ctx, cuModuleUnload(module)); }
int cuda_module_function(const cuda_api *api, cu_handle ctx, cu_handle module, const char *name, cu_handle *function) { IN(ctx, cuModuleGetFunction(function, module, name)); }

int cuda_function_load(const cuda_api *api, cu_handle ctx, cu_handle function)
{
	if (!api->cuFuncLoad)
		return CU_SUCCESS;
	IN(ctx, cuFuncLoad(function));
}

int cuda_function_attribute(const cuda_api *api, cu_handle ctx, cu_handle function, int attribute, int *value) { IN(ctx, cuFuncGetAttribute(value, attribute, function)); }
int cuda_function_allow_shared(const cuda_api *api, cu_handle ctx, cu_handle function, int bytes) { IN(ctx, cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes)); }

int cuda_launch(const cuda_api *api, cu_handle ctx, cu_handle function, unsigned int grid, unsigned int block, unsigned int shared, cu_handle stream, const unsigned char *args, size_t len)
{
	// CU_LAUNCH_PARAM_BUFFER_POINTER is (void *)1, ..._SIZE 2, ..._END 0.
	void *extra[] = {(void *)1, (void *)args, (void *)2, &len, (void *)0};
	IN(ctx, cuLaunchKernel(function, grid, 1, 1, block, 1, 1, shared, stream, NULL, len ? extra : NULL));
}

int cuda_copy_async(const cuda_api *api, cu_handle ctx, cu_ptr dst, cu_ptr src, size_t bytes, cu_handle stream) { IN(ctx, cuMemcpyAsync(dst, src, bytes, stream)); }
int cuda_set32_async(const cuda_api *api, cu_handle ctx, cu_ptr dst, unsigned int value, size_t n, cu_handle stream) { IN(ctx, cuMemsetD32Async(dst, value, n, stream)); }

// Non-blocking: the legacy default stream of another library in the process
// must not order our work.
int cuda_stream_create(const cuda_api *api, cu_handle ctx, cu_handle *stream) { IN(ctx, cuStreamCreate(stream, CU_STREAM_NON_BLOCKING)); }
int cuda_stream_destroy(const cuda_api *api, cu_handle ctx, cu_handle stream) { IN(ctx, cuStreamDestroy_v2(stream)); }
int cuda_stream_query(const cuda_api *api, cu_handle ctx, cu_handle stream) { IN(ctx, cuStreamQuery(stream)); }
int cuda_stream_synchronize(const cuda_api *api, cu_handle ctx, cu_handle stream) { IN(ctx, cuStreamSynchronize(stream)); }
int cuda_stream_wait_event(const cuda_api *api, cu_handle ctx, cu_handle stream, cu_handle event) { IN(ctx, cuStreamWaitEvent(stream, event, 0)); }

// Relaxed: every other mode ties the end of the capture to the thread that
// began it, and a goroutine may have moved to another one.
int cuda_capture_begin(const cuda_api *api, cu_handle ctx, cu_handle stream) { IN(ctx, cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED)); }
int cuda_capture_end(const cuda_api *api, cu_handle ctx, cu_handle stream, cu_handle *graph) { IN(ctx, cuStreamEndCapture(stream, graph)); }
int cuda_graph_instantiate(const cuda_api *api, cu_handle ctx, cu_handle graph, cu_handle *exec) { IN(ctx, cuGraphInstantiateWithFlags(exec, graph, 0)); }
int cuda_graph_destroy(const cuda_api *api, cu_handle ctx, cu_handle graph) { IN(ctx, cuGraphDestroy(graph)); }
int cuda_graph_exec_destroy(const cuda_api *api, cu_handle ctx, cu_handle exec) { IN(ctx, cuGraphExecDestroy(exec)); }
int cuda_graph_launch(const cuda_api *api, cu_handle ctx, cu_handle exec, cu_handle stream) { IN(ctx, cuGraphLaunch(exec, stream)); }

int cuda_event_create(const cuda_api *api, cu_handle ctx, cu_handle *event) { IN(ctx, cuEventCreate(event, 0)); }
int cuda_event_destroy(const cuda_api *api, cu_handle ctx, cu_handle event) { IN(ctx, cuEventDestroy_v2(event)); }
int cuda_event_record(const cuda_api *api, cu_handle ctx, cu_handle event, cu_handle stream) { IN(ctx, cuEventRecord(event, stream)); }

int cuda_event_elapsed(const cuda_api *api, cu_handle ctx, cu_handle start, cu_handle end, float *ms)
{
	if (api->cuEventElapsedTime_v2)
		IN(ctx, cuEventElapsedTime_v2(ms, start, end));
	IN(ctx, cuEventElapsedTime(ms, start, end));
}

static cu_multicast_object_prop multicast_prop(unsigned int devices, size_t bytes)
{
	cu_multicast_object_prop prop;
	memset(&prop, 0, sizeof prop);
	prop.numDevices = devices;
	prop.size = bytes;
	prop.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	return prop;
}

int multicast_granularity(const cuda_api *api, const multicast_api *mc, cu_handle ctx, unsigned int devices, size_t bytes, int option, size_t *granularity)
{
	cu_multicast_object_prop prop = multicast_prop(devices, bytes);
	int code = make_current(api, ctx);
	return code ? code : mc->cuMulticastGetGranularity(granularity, &prop, option);
}

int multicast_create(const cuda_api *api, const multicast_api *mc, cu_handle ctx, unsigned int devices, size_t bytes, cu_mem *handle)
{
	cu_multicast_object_prop prop = multicast_prop(devices, bytes);
	int code = make_current(api, ctx);
	return code ? code : mc->cuMulticastCreate(handle, &prop);
}

int multicast_add_device(const cuda_api *api, const multicast_api *mc, cu_handle ctx, cu_mem handle, int device)
{
	int code = make_current(api, ctx);
	return code ? code : mc->cuMulticastAddDevice(handle, device);
}

int multicast_bind(const cuda_api *api, const multicast_api *mc, cu_handle ctx, cu_mem handle, size_t mcOffset, cu_mem mem, size_t memOffset, size_t bytes)
{
	int code = make_current(api, ctx);
	return code ? code : mc->cuMulticastBindMem(handle, mcOffset, mem, memOffset, bytes, 0);
}

int multicast_unbind(const cuda_api *api, const multicast_api *mc, cu_handle ctx, cu_mem handle, int device, size_t mcOffset, size_t bytes)
{
	int code = make_current(api, ctx);
	return code ? code : mc->cuMulticastUnbind(handle, device, mcOffset, bytes);
}
