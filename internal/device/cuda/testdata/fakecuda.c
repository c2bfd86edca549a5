// A libcuda of this project's own, for tests on machines without a GPU.
//
// Device addresses are host addresses, memory is a memfd, streams execute at
// once. It keeps the rules that matter to package cuda: a context must be
// current on the calling thread, sizes must be multiples of the granularity,
// addresses must be reserved before and unmapped after, every device must be
// added before memory is bound. New memory is full of garbage.
//
// Read at cuInit from the environment:
//   FAKECUDA_LOG        a file that gets the name of every entry point called
//   FAKECUDA_FAIL       "cuMemCreate=2,cuMemMap=401": these calls fail
//   FAKECUDA_DEVICES    number of devices, 2 by default
//   FAKECUDA_ATTR132    what attribute 132 (multicast) says, 1 by default
//   FAKECUDA_TEAM_MIB   recommended granularity of multicast objects, 512 by default
//   FAKECUDA_DROP       copies between device addresses succeed and do nothing
//   FAKECUDA_FABRIC     attribute 128 (FABRIC handles) is 1, and memory with such a
//                       handle gives this code

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef unsigned long long u64;
#define API __attribute__((visibility("default")))
#define GRANULARITY (2u << 20)

enum {
	INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, INVALID_DEVICE = 101,
	INVALID_CONTEXT = 201, INVALID_PTX = 218, INVALID_HANDLE = 400,
	ILLEGAL_STATE = 401, NOT_FOUND = 500, NOT_READY = 600,
	ILLEGAL_ADDRESS = 700, CAPTURE_INVALID = 901,
};

static int log_fd = -1, devices = 2, attr132 = 1, fabric = -1, drop, team_mib;
static char fail_spec[512];
static int initialised, sticky;
static int contexts[16]; // retain counts; a context's handle is its address
static __thread uintptr_t current;

static u64 now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (u64)t.tv_sec * 1000000000u + t.tv_nsec;
}

// enter logs a call and gives the result that the test wants it to have.
static int enter(const char *name)
{
	if (log_fd >= 0)
		dprintf(log_fd, "%s\n", name);
	if (fail_spec[0]) {
		size_t n = strlen(name);
		for (char *p = fail_spec; (p = strstr(p, name)); p += n)
			if (p[n] == '=' && (p == fail_spec || p[-1] == ','))
				return atoi(p + n + 1);
	}
	return 0;
}

static int in_context(const char *name)
{
	int code = enter(name);
	if (code)
		return code;
	if (current < (uintptr_t)contexts || current >= (uintptr_t)(contexts + 16) || !*(int *)current)
		return INVALID_CONTEXT;
	return sticky;
}

#define ENTER do { int code_ = enter(__func__); if (code_) return code_; } while (0)
#define IN_CONTEXT do { int code_ = in_context(__func__); if (code_) return code_; } while (0)

API int cuInit(unsigned flags)
{
	const char *s;
	(void)flags;
	if (log_fd >= 0)
		close(log_fd);
	s = getenv("FAKECUDA_LOG");
	log_fd = s && *s ? open(s, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
	s = getenv("FAKECUDA_FAIL");
	snprintf(fail_spec, sizeof fail_spec, "%s", s ? s : "");
	s = getenv("FAKECUDA_DEVICES");
	devices = s && *s ? atoi(s) : 2;
	s = getenv("FAKECUDA_ATTR132");
	attr132 = s && *s ? atoi(s) : 1;
	s = getenv("FAKECUDA_FABRIC");
	fabric = s && *s ? atoi(s) : -1;
	s = getenv("FAKECUDA_TEAM_MIB");
	team_mib = s && *s ? atoi(s) : 512;
	s = getenv("FAKECUDA_DROP");
	drop = s && *s;
	sticky = 0;
	ENTER;
	initialised = 1;
	return 0;
}

API int cuDriverGetVersion(int *v) { ENTER; *v = 13000; return 0; }

API int cuGetErrorName(int code, const char **s)
{
	switch (code) {
	case INVALID_VALUE: *s = "CUDA_ERROR_INVALID_VALUE"; return 0;
	case OUT_OF_MEMORY: *s = "CUDA_ERROR_OUT_OF_MEMORY"; return 0;
	case NO_DEVICE: *s = "CUDA_ERROR_NO_DEVICE"; return 0;
	case INVALID_CONTEXT: *s = "CUDA_ERROR_INVALID_CONTEXT"; return 0;
	case INVALID_PTX: *s = "CUDA_ERROR_INVALID_PTX"; return 0;
	case ILLEGAL_STATE: *s = "CUDA_ERROR_ILLEGAL_STATE"; return 0;
	case NOT_FOUND: *s = "CUDA_ERROR_NOT_FOUND"; return 0;
	case ILLEGAL_ADDRESS: *s = "CUDA_ERROR_ILLEGAL_ADDRESS"; return 0;
	case 800: *s = "CUDA_ERROR_NOT_PERMITTED"; return 0;
	case 801: *s = "CUDA_ERROR_NOT_SUPPORTED"; return 0;
	case 802: *s = "CUDA_ERROR_SYSTEM_NOT_READY"; return 0;
	}
	*s = NULL;
	return INVALID_VALUE;
}

API int cuGetErrorString(int code, const char **s)
{
	const char *name;
	if (cuGetErrorName(code, &name)) {
		*s = NULL;
		return INVALID_VALUE;
	}
	*s = "the fake's own words";
	return 0;
}

API int cuDeviceGetCount(int *n) { ENTER; *n = devices; return 0; }

API int cuDeviceGet(int *dev, int ordinal)
{
	ENTER;
	if (ordinal < 0 || ordinal >= devices)
		return INVALID_DEVICE;
	*dev = ordinal;
	return 0;
}

API int cuDeviceGetName(char *name, int len, int dev) { (void)dev; ENTER; snprintf(name, len, "Fake H200"); return 0; }
API int cuDeviceGetPCIBusId(char *id, int len, int dev) { ENTER; snprintf(id, len, "0000:%02X:00.0", 0x1b + dev); return 0; }
API int cuDeviceTotalMem_v2(size_t *n, int dev) { (void)dev; ENTER; *n = (size_t)1 << 30; return 0; }

API int cuDeviceGetUuid_v2(unsigned char *uuid, int dev)
{
	ENTER;
	for (int i = 0; i < 16; i++)
		uuid[i] = 0x10 * (dev + 1) + i;
	return 0;
}

API int cuDeviceGetAttribute(int *v, int attribute, int dev)
{
	(void)dev;
	ENTER;
	switch (attribute) {
	case 1: *v = 1024; return 0;
	case 16: *v = 132; return 0;
	case 38: *v = 60 << 20; return 0;
	case 75: *v = 9; return 0;
	case 76: *v = 0; return 0;
	case 95: case 102: case 103: *v = 1; return 0;
	case 106: *v = 32; return 0;
	case 128:
		if (fabric < 0)
			return INVALID_VALUE;
		*v = 1;
		return 0;
	case 132: *v = attr132; return 0;
	}
	return INVALID_VALUE; // as a driver that is older than the attribute
}

API int cuDevicePrimaryCtxRetain(uintptr_t *ctx, int dev) { ENTER; contexts[dev]++; *ctx = (uintptr_t)&contexts[dev]; return 0; }

API int cuDevicePrimaryCtxRelease_v2(int dev)
{
	ENTER;
	if (contexts[dev] == 0)
		return INVALID_CONTEXT;
	contexts[dev]--;
	return 0;
}

API int cuCtxGetCurrent(uintptr_t *ctx) { *ctx = current; return 0; }
API int cuCtxSetCurrent(uintptr_t ctx) { ENTER; current = ctx; return 0; }
API int cuMemGetInfo_v2(size_t *f, size_t *t) { IN_CONTEXT; *f = (size_t)3 << 28; *t = (size_t)1 << 30; return 0; }

// --- memory -----------------------------------------------------------------

typedef struct { int type, id; } location;
typedef struct { int type, handle_types; location where; void *meta; unsigned char flags[8]; } allocation_prop;
typedef struct { location where; int flags; } access_desc;
typedef struct { unsigned devices; size_t size; u64 handle_types, flags; } multicast_prop;

typedef struct { size_t offset, size; int dev, used; } bound;
typedef struct {
	int fd, multicast, mapped;
	size_t size;
	unsigned devices, added;
	bound bounds[8];
} object;

typedef struct { uintptr_t at; size_t size; object *obj; int reserved; } range;
static range ranges[64];

static int check_prop(const allocation_prop *p)
{
	static const unsigned char none[8];
	return p->type == 1 && p->handle_types == 1 && p->where.type == 1 && p->where.id >= 0 &&
		p->where.id < devices && !p->meta && !memcmp(p->flags, none, 8);
}

API int cuMemGetAllocationGranularity(size_t *n, const allocation_prop *p, int option)
{
	ENTER;
	if (!check_prop(p) || (option != 0 && option != 1))
		return INVALID_VALUE;
	*n = GRANULARITY;
	return 0;
}

static object *new_object(size_t size)
{
	object *o = calloc(1, sizeof *o);
	o->fd = memfd_create("fakecuda", MFD_CLOEXEC);
	o->size = size;
	if (ftruncate(o->fd, size))
		abort();
	return o;
}

API int cuMemCreate(u64 *h, size_t size, const allocation_prop *p, u64 flags)
{
	IN_CONTEXT;
	if (p->handle_types == 8 && fabric > 0)
		return fabric;
	if (!check_prop(p) || flags || size == 0 || size % GRANULARITY)
		return INVALID_VALUE;
	if (size > (size_t)1 << 30)
		return OUT_OF_MEMORY;
	object *o = new_object(size);
	char *garbage = mmap(NULL, size, PROT_WRITE, MAP_SHARED, o->fd, 0);
	memset(garbage, 0xa5, size);
	munmap(garbage, size);
	*h = (u64)(uintptr_t)o;
	return 0;
}

API int cuMemRelease(u64 h)
{
	IN_CONTEXT;
	object *o = (object *)(uintptr_t)h;
	if (o->mapped)
		return ILLEGAL_STATE; // stricter than the driver, to see the order of teardown
	for (int i = 0; i < 8; i++)
		if (o->bounds[i].used)
			return ILLEGAL_STATE;
	close(o->fd);
	free(o);
	return 0;
}

API int cuMemExportToShareableHandle(void *out, u64 h, int type, u64 flags)
{
	IN_CONTEXT;
	if (type != 1 || flags)
		return INVALID_VALUE;
	*(int *)out = dup(((object *)(uintptr_t)h)->fd);
	return 0;
}

API int cuMemImportFromShareableHandle(u64 *h, void *os, int type)
{
	struct stat st;
	IN_CONTEXT;
	if (type != 1)
		return INVALID_VALUE;
	object *o = calloc(1, sizeof *o);
	o->fd = dup((int)(uintptr_t)os);
	if (o->fd < 0 || fstat(o->fd, &st)) {
		free(o);
		return INVALID_VALUE;
	}
	o->size = st.st_size;
	*h = (u64)(uintptr_t)o;
	return 0;
}

static range *range_at(u64 at, size_t size)
{
	for (int i = 0; i < 64; i++)
		if (ranges[i].reserved && ranges[i].at == at && ranges[i].size == size)
			return &ranges[i];
	return NULL;
}

API int cuMemAddressReserve(u64 *at, size_t size, size_t alignment, u64 hint, u64 flags)
{
	IN_CONTEXT;
	if (size == 0 || size % GRANULARITY || alignment % GRANULARITY || hint || flags)
		return INVALID_VALUE;
	for (int i = 0; i < 64; i++)
		if (!ranges[i].reserved) {
			void *p = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
			if (p == MAP_FAILED)
				return OUT_OF_MEMORY;
			ranges[i] = (range){(uintptr_t)p, size, NULL, 1};
			*at = (u64)(uintptr_t)p;
			return 0;
		}
	return OUT_OF_MEMORY;
}

API int cuMemAddressFree(u64 at, size_t size)
{
	IN_CONTEXT;
	range *r = range_at(at, size);
	if (!r || r->obj)
		return INVALID_VALUE;
	munmap((void *)(uintptr_t)at, size);
	r->reserved = 0;
	return 0;
}

API int cuMemMap(u64 at, size_t size, size_t offset, u64 h, u64 flags)
{
	IN_CONTEXT;
	object *o = (object *)(uintptr_t)h;
	range *r = range_at(at, size);
	if (!r || r->obj || offset || flags || size > o->size)
		return INVALID_VALUE;
	if (o->multicast && o->added < o->devices)
		return ILLEGAL_STATE;
	r->obj = o;
	o->mapped++;
	return 0;
}

API int cuMemSetAccess(u64 at, size_t size, const access_desc *d, size_t n)
{
	IN_CONTEXT;
	range *r = range_at(at, size);
	if (!r || !r->obj || n != 1 || d->where.type != 1 || d->where.id < 0 || d->where.id >= devices || d->flags != 3)
		return INVALID_VALUE;
	if (mmap((void *)(uintptr_t)at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, r->obj->fd, 0) == MAP_FAILED)
		return OUT_OF_MEMORY;
	return 0;
}

API int cuMemUnmap(u64 at, size_t size)
{
	IN_CONTEXT;
	range *r = range_at(at, size);
	if (!r || !r->obj)
		return INVALID_VALUE;
	mmap((void *)(uintptr_t)at, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	r->obj->mapped--;
	r->obj = NULL;
	return 0;
}

// --- streams, graphs, events, kernels ---------------------------------------

typedef struct { int kind; u64 dst, src; size_t n; unsigned value; void *fn; unsigned char args[512]; } op;
typedef struct stream stream;
typedef struct { int n, members; op ops[256]; stream *member[8]; } recording; // member[0] began it
struct stream { u64 busy_until; recording *capture; };
typedef struct { u64 at; recording *capture; } event;
typedef struct { char name[64]; } kernel;

static void execute(stream *s, const op *o)
{
	u64 a[2];
	switch (o->kind) {
	case 'c': memmove((void *)(uintptr_t)o->dst, (void *)(uintptr_t)o->src, o->n); break;
	case 's': for (size_t i = 0; i < o->n; i++) ((unsigned *)(uintptr_t)o->dst)[i] = o->value; break;
	case 'k':
		memcpy(a, o->args, sizeof a);
		if (!strcmp(o->fn, "add_one"))
			for (u64 i = 0; i < a[1]; i++)
				((unsigned *)(uintptr_t)a[0])[i]++;
		else if (!strcmp(o->fn, "busy"))
			s->busy_until = now_ns() + a[0];
		else if (!strcmp(o->fn, "fault"))
			sticky = ILLEGAL_ADDRESS;
		break;
	}
}

static int enqueue(stream *s, op o)
{
	if (s->capture) {
		if (s->capture->n == 256)
			return CAPTURE_INVALID;
		s->capture->ops[s->capture->n++] = o;
	} else {
		execute(s, &o);
	}
	return 0;
}

API int cuStreamCreate(uintptr_t *s, unsigned flags) { IN_CONTEXT; if (flags != 1) return INVALID_VALUE; *s = (uintptr_t)calloc(1, sizeof(stream)); return 0; }
API int cuStreamDestroy_v2(uintptr_t s) { IN_CONTEXT; free((void *)s); return 0; }
API int cuStreamQuery(uintptr_t s) { IN_CONTEXT; return now_ns() < ((stream *)s)->busy_until ? NOT_READY : 0; }
API int cuStreamSynchronize(uintptr_t s) { IN_CONTEXT; while (now_ns() < ((stream *)s)->busy_until); return 0; }
API int cuMemcpyHtoDAsync_v2(u64 dst, const void *src, size_t n, uintptr_t s) { IN_CONTEXT; return enqueue((stream *)s, (op){.kind = 'c', .dst = dst, .src = (u64)(uintptr_t)src, .n = n}); }
API int cuMemcpyDtoHAsync_v2(void *dst, u64 src, size_t n, uintptr_t s) { IN_CONTEXT; return enqueue((stream *)s, (op){.kind = 'c', .dst = (u64)(uintptr_t)dst, .src = src, .n = n}); }
API int cuMemcpyAsync(u64 dst, u64 src, size_t n, uintptr_t s) { IN_CONTEXT; if (drop) return 0; return enqueue((stream *)s, (op){.kind = 'c', .dst = dst, .src = src, .n = n}); }
API int cuMemsetD32Async(u64 dst, unsigned value, size_t n, uintptr_t s) { IN_CONTEXT; return enqueue((stream *)s, (op){.kind = 's', .dst = dst, .value = value, .n = n}); }

API int cuStreamBeginCapture_v2(uintptr_t s, int mode)
{
	IN_CONTEXT;
	if (mode != 2 || ((stream *)s)->capture)
		return INVALID_VALUE;
	recording *r = calloc(1, sizeof(recording));
	r->member[r->members++] = (stream *)s;
	((stream *)s)->capture = r;
	return 0;
}

API int cuStreamEndCapture(uintptr_t s, uintptr_t *graph)
{
	IN_CONTEXT;
	recording *r = ((stream *)s)->capture;
	if (!r || r->member[0] != (stream *)s)
		return CAPTURE_INVALID;
	for (int i = 0; i < r->members; i++)
		r->member[i]->capture = NULL;
	*graph = (uintptr_t)r;
	return 0;
}

API int cuGraphInstantiateWithFlags(uintptr_t *exec, uintptr_t graph, u64 flags)
{
	IN_CONTEXT;
	if (flags)
		return INVALID_VALUE;
	recording *r = malloc(sizeof *r);
	*r = *(recording *)graph;
	*exec = (uintptr_t)r;
	return 0;
}

API int cuGraphDestroy(uintptr_t graph) { IN_CONTEXT; free((void *)graph); return 0; }
API int cuGraphExecDestroy(uintptr_t exec) { IN_CONTEXT; free((void *)exec); return 0; }

API int cuGraphLaunch(uintptr_t exec, uintptr_t s)
{
	IN_CONTEXT;
	recording *r = (recording *)exec;
	for (int i = 0; i < r->n; i++)
		execute((stream *)s, &r->ops[i]);
	return 0;
}

API int cuEventCreate(uintptr_t *e, unsigned flags) { IN_CONTEXT; if (flags) return INVALID_VALUE; *e = (uintptr_t)calloc(1, sizeof(event)); return 0; }
API int cuEventDestroy_v2(uintptr_t e) { IN_CONTEXT; free((void *)e); return 0; }

API int cuEventRecord(uintptr_t e, uintptr_t s)
{
	IN_CONTEXT;
	u64 t = now_ns(), busy = ((stream *)s)->busy_until;
	((event *)e)->at = busy > t ? busy : t;
	((event *)e)->capture = ((stream *)s)->capture;
	return 0;
}

// Streams execute at once and a graph in the order of its recording, so that a
// wait only joins the recording, or makes the stream busy for as long.
API int cuStreamWaitEvent(uintptr_t s, uintptr_t e, unsigned flags)
{
	IN_CONTEXT;
	stream *st = (stream *)s;
	recording *r = ((event *)e)->capture;
	if (flags)
		return INVALID_VALUE;
	if (r && st->capture != r) {
		if (st->capture || r->members == 8)
			return CAPTURE_INVALID;
		r->member[r->members++] = st;
		st->capture = r;
	}
	if (!r && ((event *)e)->at > st->busy_until)
		st->busy_until = ((event *)e)->at;
	return 0;
}

API int cuEventElapsedTime(float *ms, uintptr_t a, uintptr_t b) { (void)ms; (void)a; (void)b; IN_CONTEXT; return INVALID_VALUE; } // _v2 is there

API int cuEventElapsedTime_v2(float *ms, uintptr_t a, uintptr_t b)
{
	IN_CONTEXT;
	u64 x = ((event *)a)->at, y = ((event *)b)->at, t = now_ns();
	if (!x || !y)
		return INVALID_HANDLE;
	if (x > t || y > t)
		return NOT_READY;
	*ms = (double)(y - x) / 1e6;
	return 0;
}

API int cuModuleLoadDataEx(uintptr_t *m, const void *image, unsigned n, int *options, void **values)
{
	IN_CONTEXT;
	if (n != 4 || options[0] != 3 || options[1] != 4 || options[2] != 5 || options[3] != 6)
		return INVALID_VALUE;
	if (strstr(image, "garbage")) {
		snprintf(values[0], (size_t)values[1], "info: compiled nothing");
		snprintf(values[2], (size_t)values[3], "ptxas application ptx input, line 3; fatal: syntax error");
		return INVALID_PTX;
	}
	*m = (uintptr_t)strdup(image);
	return 0;
}

API int cuModuleUnload(uintptr_t m) { IN_CONTEXT; free((void *)m); return 0; }

API int cuModuleGetFunction(uintptr_t *f, uintptr_t m, const char *name)
{
	static kernel kernels[64];
	static size_t n;
	char entry[80];
	IN_CONTEXT;
	snprintf(entry, sizeof entry, ".entry %s(", name);
	if (!strstr((char *)m, entry))
		return NOT_FOUND;
	for (size_t i = 0; i < n; i++)
		if (!strcmp(kernels[i].name, name)) {
			*f = (uintptr_t)&kernels[i];
			return 0;
		}
	if (n == sizeof kernels / sizeof *kernels)
		return OUT_OF_MEMORY;
	snprintf(kernels[n].name, sizeof kernels[n].name, "%s", name);
	*f = (uintptr_t)&kernels[n++];
	return 0;
}

API int cuFuncLoad(uintptr_t f) { (void)f; IN_CONTEXT; return 0; }
API int cuFuncSetAttribute(uintptr_t f, int attribute, int value) { (void)f; IN_CONTEXT; return attribute == 8 && value <= 227 << 10 ? 0 : INVALID_VALUE; }

API int cuFuncGetAttribute(int *v, int attribute, uintptr_t f)
{
	(void)f;
	IN_CONTEXT;
	switch (attribute) {
	case 0: *v = 1024; return 0;
	case 1: *v = 1 << 10; return 0;
	case 3: *v = 16; return 0;
	case 4: *v = 40; return 0;
	}
	return INVALID_VALUE;
}

API int cuLaunchKernel(uintptr_t f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
	unsigned shared, uintptr_t s, void **params, void **extra)
{
	IN_CONTEXT;
	(void)shared;
	if (!gx || gy != 1 || gz != 1 || !bx || bx > 1024 || by != 1 || bz != 1 || params)
		return INVALID_VALUE;
	op o = {.kind = 'k', .fn = ((kernel *)f)->name};
	if (extra) {
		if (extra[0] != (void *)1 || extra[2] != (void *)2 || extra[4] || *(size_t *)extra[3] > sizeof o.args)
			return INVALID_VALUE;
		memcpy(o.args, extra[1], *(size_t *)extra[3]);
	}
	return enqueue((stream *)s, o);
}

// --- multicast --------------------------------------------------------------

static int check_multicast(const multicast_prop *p) { return p->devices >= 1 && p->handle_types == 1 && !p->flags; }

API int cuMulticastGetGranularity(size_t *n, const multicast_prop *p, int option)
{
	IN_CONTEXT;
	if (!check_multicast(p))
		return INVALID_VALUE;
	*n = option == 0 ? GRANULARITY : (size_t)team_mib << 20;
	return 0;
}

API int cuMulticastCreate(u64 *h, const multicast_prop *p)
{
	IN_CONTEXT;
	if (!check_multicast(p) || p->size == 0 || p->size % GRANULARITY)
		return INVALID_VALUE;
	object *o = new_object(p->size);
	o->multicast = 1;
	o->devices = p->devices;
	*h = (u64)(uintptr_t)o;
	return 0;
}

API int cuMulticastAddDevice(u64 h, int dev) { (void)dev; IN_CONTEXT; ((object *)(uintptr_t)h)->added++; return 0; }

API int cuMulticastBindMem(u64 h, size_t at, u64 mem, size_t from, size_t size, u64 flags)
{
	IN_CONTEXT;
	object *o = (object *)(uintptr_t)h, *m = (object *)(uintptr_t)mem;
	if (o->added < o->devices)
		return ILLEGAL_STATE; // the driver would block
	if (at % GRANULARITY || from % GRANULARITY || size % GRANULARITY || at + size > o->size || from + size > m->size || flags)
		return INVALID_VALUE;
	for (int i = 0; i < 8; i++)
		if (!o->bounds[i].used) {
			o->bounds[i] = (bound){at, size, 0, 1};
			return 0;
		}
	return OUT_OF_MEMORY;
}

API int cuMulticastUnbind(u64 h, int dev, size_t at, size_t size)
{
	(void)dev;
	IN_CONTEXT;
	object *o = (object *)(uintptr_t)h;
	for (int i = 0; i < 8; i++)
		if (o->bounds[i].used && o->bounds[i].offset == at && o->bounds[i].size == size) {
			o->bounds[i].used = 0;
			return 0;
		}
	return INVALID_VALUE;
}
