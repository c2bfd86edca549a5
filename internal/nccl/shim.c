#include "shim.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(nccl_unique_id) == 128, "ncclUniqueId");

typedef struct {
	const char *name;
	size_t offset;
	int optional;
} entry_point;

#define REQUIRED(type, name, params) {#name, offsetof(nccl_api, name), 0},
#define OPTIONAL(type, name, params) {#name, offsetof(nccl_api, name), 1},
static const entry_point entry_points[] = {
	NCCL_ENTRY_POINTS(REQUIRED)
	NCCL_OPTIONAL_ENTRY_POINTS(OPTIONAL)
};

const char *nccl_environment(const char *name) { return getenv(name); }

int nccl_present(const char *name)
{
	void *library = dlopen(name, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
	if (!library)
		return 0;
	dlclose(library);
	return 1;
}

void *nccl_open(const char *path, char *err, size_t len)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		const char *why = dlerror();
		strncpy(err, why ? why : "unknown reason", len - 1);
		err[len - 1] = 0;
	}
	return library;
}

void nccl_close(void *library) { dlclose(library); }

const char *nccl_resolve(void *library, nccl_api *api)
{
	for (size_t i = 0; i < sizeof entry_points / sizeof *entry_points; i++) {
		void *address = dlsym(library, entry_points[i].name);
		if (!address && !entry_points[i].optional)
			return entry_points[i].name;
		memcpy((char *)api + entry_points[i].offset, &address, sizeof address);
	}
	return NULL;
}

int nccl_version(const nccl_api *api, int *version) { return api->ncclGetVersion(version); }
const char *nccl_error_text(const nccl_api *api, int result) { return api->ncclGetErrorString(result); }
const char *nccl_last_error(const nccl_api *api) { return api->ncclGetLastError ? api->ncclGetLastError(0) : NULL; }

int nccl_reset_log(const nccl_api *api)
{
	if (!api->ncclResetDebugInit)
		return 0;
	api->ncclResetDebugInit();
	return 1;
}

// NCCL takes the device from the context that is current, and may leave another
// one behind.
static int make_current(nccl_stream s)
{
	uintptr_t current = 0;
	if (((int (*)(uintptr_t *))s.get_current)(&current) == 0 && current == s.context)
		return 0;
	return -((int (*)(uintptr_t))s.set_current)(s.context);
}

// IN calls an entry point in the stream's context.
#define IN(s, call) \
	do { \
		int code = make_current(s); \
		return code ? code : api->call; \
	} while (0)

int nccl_unique(const nccl_api *api, nccl_stream s, nccl_unique_id *id) { IN(s, ncclGetUniqueId(id)); }
int nccl_init(const nccl_api *api, nccl_stream s, nccl_handle *comm, int ranks, const nccl_unique_id *id, int rank) { IN(s, ncclCommInitRank(comm, ranks, *id, rank)); }
int nccl_destroy(const nccl_api *api, nccl_stream s, nccl_handle comm) { IN(s, ncclCommDestroy(comm)); }
int nccl_abort(const nccl_api *api, nccl_stream s, nccl_handle comm) { IN(s, ncclCommAbort(comm)); }
int nccl_all_reduce(const nccl_api *api, nccl_stream s, uintptr_t send, uintptr_t recv, size_t count, int dtype, int op, nccl_handle comm) { IN(s, ncclAllReduce((const void *)send, (void *)recv, count, dtype, op, comm, s.stream)); }

int nccl_has_windows(const nccl_api *api) { return api->ncclMemAlloc && api->ncclMemFree && api->ncclCommWindowRegister && api->ncclCommWindowDeregister; }
int nccl_mem_alloc(const nccl_api *api, nccl_stream s, size_t bytes, uintptr_t *ptr) { IN(s, ncclMemAlloc((void **)ptr, bytes)); }
int nccl_mem_free(const nccl_api *api, nccl_stream s, uintptr_t ptr) { IN(s, ncclMemFree((void *)ptr)); }
int nccl_window_register(const nccl_api *api, nccl_stream s, nccl_handle comm, uintptr_t ptr, size_t bytes, nccl_handle *window) { IN(s, ncclCommWindowRegister(comm, (void *)ptr, bytes, window, NCCL_WIN_COLL_SYMMETRIC)); }
int nccl_window_deregister(const nccl_api *api, nccl_stream s, nccl_handle comm, nccl_handle window) { IN(s, ncclCommWindowDeregister(comm, window)); }
