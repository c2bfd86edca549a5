// The part of NCCL's API that this package calls, declared here so that building
// needs no nccl.h. Numbers and signatures are the ABI of libnccl.so.2, the same
// from 2.10 to 2.30.
//
// Functions that return int give an ncclResult_t, 0 for success. Those that take
// a stream's handles make its context current on the calling thread first,
// because a goroutine may come from another thread at every call; if that fails
// they return the negative of cuCtxSetCurrent's result.

#ifndef NVLS_NCCL_SHIM_H
#define NVLS_NCCL_SHIM_H

#include <stddef.h>
#include <stdint.h>

// Handles are pointers in C and plain numbers in Go, which must never look behind
// them.
typedef uintptr_t nccl_handle; // ncclComm_t, ncclWindow_t

// ncclUniqueId, passed by value.
typedef struct {
	char internal[128];
} nccl_unique_id;

enum {
	NCCL_SUCCESS = 0,
	NCCL_WIN_COLL_SYMMETRIC = 1,
};

// nccl_stream is cuda.Native in C.
typedef struct {
	uintptr_t stream, context, get_current, set_current;
} nccl_stream;

#define NCCL_ENTRY_POINTS(X) \
	X(int, ncclGetVersion, (int *version)) \
	X(const char *, ncclGetErrorString, (int result)) \
	X(int, ncclGetUniqueId, (nccl_unique_id *id)) \
	X(int, ncclCommInitRank, (nccl_handle *comm, int ranks, nccl_unique_id id, int rank)) \
	X(int, ncclCommDestroy, (nccl_handle comm)) \
	X(int, ncclCommAbort, (nccl_handle comm)) \
	X(int, ncclAllReduce, (const void *send, void *recv, size_t count, int dtype, int op, nccl_handle comm, uintptr_t stream))

// Entry points that some NCCL lack: ncclGetLastError came with 2.13, ncclMemAlloc
// with 2.19, windows with 2.27; ncclResetDebugInit is to go.
#define NCCL_OPTIONAL_ENTRY_POINTS(X) \
	X(void, ncclResetDebugInit, (void)) \
	X(const char *, ncclGetLastError, (nccl_handle comm)) \
	X(int, ncclMemAlloc, (void **ptr, size_t bytes)) \
	X(int, ncclMemFree, (void *ptr)) \
	X(int, ncclCommWindowRegister, (nccl_handle comm, void *buffer, size_t bytes, nccl_handle *window, int flags)) \
	X(int, ncclCommWindowDeregister, (nccl_handle comm, nccl_handle window))

#define NCCL_ENTRY_POINT_FIELD(type, name, params) type (*name) params;
typedef struct {
	NCCL_ENTRY_POINTS(NCCL_ENTRY_POINT_FIELD)
	NCCL_OPTIONAL_ENTRY_POINTS(NCCL_ENTRY_POINT_FIELD)
} nccl_api;
#undef NCCL_ENTRY_POINT_FIELD

// nccl_environment reads the C environment, which is what NCCL reads; NULL when
// not set.
const char *nccl_environment(const char *name);

// nccl_present tells whether a library of this name, by path or soname, is in
// the process already. It loads nothing.
int nccl_present(const char *name);
void *nccl_open(const char *path, char *err, size_t len);
void nccl_close(void *library);

// nccl_resolve fills a table from an opened library. It returns the name of the
// first entry point that the library lacks, or NULL.
const char *nccl_resolve(void *library, nccl_api *api);

int nccl_version(const nccl_api *api, int *version);
const char *nccl_error_text(const nccl_api *api, int result);
const char *nccl_last_error(const nccl_api *api);

// nccl_reset_log makes NCCL read the environment of its log again, at its next
// message. It returns 0 when the library cannot.
int nccl_reset_log(const nccl_api *api);

int nccl_unique(const nccl_api *api, nccl_stream s, nccl_unique_id *id);
int nccl_init(const nccl_api *api, nccl_stream s, nccl_handle *comm, int ranks, const nccl_unique_id *id, int rank);
int nccl_destroy(const nccl_api *api, nccl_stream s, nccl_handle comm);
int nccl_abort(const nccl_api *api, nccl_stream s, nccl_handle comm);
int nccl_all_reduce(const nccl_api *api, nccl_stream s, uintptr_t send, uintptr_t recv, size_t count, int dtype, int op, nccl_handle comm);

int nccl_has_windows(const nccl_api *api);
int nccl_mem_alloc(const nccl_api *api, nccl_stream s, size_t bytes, uintptr_t *ptr);
int nccl_mem_free(const nccl_api *api, nccl_stream s, uintptr_t ptr);
int nccl_window_register(const nccl_api *api, nccl_stream s, nccl_handle comm, uintptr_t ptr, size_t bytes, nccl_handle *window);
int nccl_window_deregister(const nccl_api *api, nccl_stream s, nccl_handle comm, nccl_handle window);

#endif
