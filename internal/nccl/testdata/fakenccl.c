// A libnccl.so.2 of this project's own, for tests on machines without a GPU. It
// goes with the fake libcuda of package cuda.
//
// It writes down every call with the environment that NCCL reads its switches
// from, and an all-reduce is a copy by libcuda, as it is for a single rank; so it
// needs the context to be current, and can be recorded into a graph.
//
// Compiled with OLD it lacks what came after 2.18, with BROKEN ncclAllReduce.
//
// Read from the environment:
//   FAKENCCL_LOG      a file that gets a line for loading and for every call
//   FAKENCCL_VERSION  22809 by default
//   FAKENCCL_FAIL     "ncclCommInitRank=5": this call fails
//   FAKENCCL_LAST     what ncclGetLastError says
//   FAKENCCL_HANG     this call never returns
//   FAKENCCL_MEDDLE   in this call, or when "load"ed, NCCL_NVLS_ENABLE becomes 1
//   FAKENCCL_CHOICE   what an all-reduce writes to NCCL's log at level INFO
//   FAKENCCL_WINDOW   0: no window is registered, and no error given

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

typedef struct { char internal[128]; } unique_id;
typedef struct { int ranks, rank; } comm;

static int enter(const char *name, const char *format, ...)
{
	char detail[512] = "";
	const char *s = getenv("FAKENCCL_LOG"), *nvls = getenv("NCCL_NVLS_ENABLE"), *plugin = getenv("NCCL_ENV_PLUGIN");
	va_list args;
	va_start(args, format);
	vsnprintf(detail, sizeof detail, format, args);
	va_end(args);
	int fd = s ? open(s, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
	if (fd >= 0) {
		dprintf(fd, "%s NVLS=%s PLUGIN=%s%s\n", name, nvls ? nvls : "unset", plugin ? plugin : "unset", detail);
		close(fd);
	}
	if ((s = getenv("FAKENCCL_MEDDLE")) && !strcmp(s, name))
		setenv("NCCL_NVLS_ENABLE", "1", 1);
	if ((s = getenv("FAKENCCL_HANG")) && !strcmp(s, name))
		for (;;)
			pause();
	s = getenv("FAKENCCL_FAIL");
	size_t n = strlen(name);
	return s && !strncmp(s, name, n) && s[n] == '=' ? atoi(s + n + 1) : 0;
}

__attribute__((constructor)) static void load(void) { enter("load", ""); }

#define ENTER(...) do { int code_ = enter(__func__, __VA_ARGS__); if (code_) return code_; } while (0)

static void *cuda(const char *name)
{
	void *lib = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
	return lib ? dlsym(lib, name) : NULL;
}

// context says which context is current; NCCL finds its device by it.
static uintptr_t context(void)
{
	uintptr_t ctx = 0;
	int (*get)(uintptr_t *) = (int (*)(uintptr_t *))cuda("cuCtxGetCurrent");
	if (get)
		get(&ctx);
	return ctx;
}

// NCCL's log: off, or a file that was opened when its environment was last read.
static FILE *tuning;

API void ncclResetDebugInit(void)
{
	const char *level = getenv("NCCL_DEBUG"), *subsys = getenv("NCCL_DEBUG_SUBSYS"), *file = getenv("NCCL_DEBUG_FILE");
	enter(__func__, " DEBUG=%s", level ? level : "unset");
	if (tuning)
		fclose(tuning);
	tuning = level && !strcmp(level, "INFO") && subsys && !strcmp(subsys, "TUNING") && file ? fopen(file, "w") : NULL;
	if (tuning)
		setlinebuf(tuning);
}

// forget leaves the thread without a context, as NCCL may leave it with another.
static void forget(void)
{
	int (*set)(uintptr_t) = (int (*)(uintptr_t))cuda("cuCtxSetCurrent");
	if (set)
		set(0);
}

API int ncclGetVersion(int *v)
{
	const char *s = getenv("FAKENCCL_VERSION");
	ENTER("");
	*v = s ? atoi(s) : 22809;
	return 0;
}

API const char *ncclGetErrorString(int code) { return code == 5 ? "invalid usage" : "the fake's own words"; }
#ifndef OLD
API const char *ncclGetLastError(const void *c) { (void)c; const char *s = getenv("FAKENCCL_LAST"); return s ? s : ""; }
#endif

API int ncclGetUniqueId(unique_id *id)
{
	ENTER("");
	for (int i = 0; i < 128; i++)
		id->internal[i] = (char)(i * 7 + getpid());
	return 0;
}

API int ncclCommInitRank(comm **out, int ranks, unique_id id, int rank)
{
	unsigned sum = 0;
	for (int i = 0; i < 128; i++)
		sum = sum * 31 + (unsigned char)id.internal[i];
	ENTER(" ranks=%d rank=%d id=%08x context=%d", ranks, rank, sum, context() != 0);
	*out = malloc(sizeof **out);
	**out = (comm){ranks, rank};
	forget();
	return 0;
}

API int ncclCommDestroy(comm *c) { ENTER(""); free(c); return 0; }
API int ncclCommAbort(comm *c) { ENTER(""); free(c); return 0; }

#ifndef BROKEN
API int ncclAllReduce(const void *send, void *recv, size_t count, int dtype, int op, comm *c, uintptr_t stream)
{
	static const int size[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
	(void)c;
	ENTER(" count=%zu dtype=%d op=%d context=%d", count, dtype, op, context() != 0);
	if (tuning && getenv("FAKENCCL_CHOICE"))
		fprintf(tuning, "host:1:2 [0] NCCL INFO %s\n", getenv("FAKENCCL_CHOICE"));
	if (dtype < 0 || dtype > 9 || op < 0 || op > 4)
		return 4;
	int (*copy)(uint64_t, uint64_t, size_t, uintptr_t) = (int (*)(uint64_t, uint64_t, size_t, uintptr_t))cuda("cuMemcpyAsync");
	int code = copy ? copy((uintptr_t)recv, (uintptr_t)send, count * size[dtype], stream) : -1;
	forget();
	return code ? 1 : 0;
}
#endif

#ifndef OLD
API int ncclMemAlloc(void **ptr, size_t bytes)
{
	ENTER(" bytes=%zu context=%d", bytes, context() != 0);
	*ptr = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return *ptr == MAP_FAILED ? 1 : 0;
}

API int ncclMemFree(void *ptr) { (void)ptr; ENTER(""); return 0; }

API int ncclCommWindowRegister(comm *c, void *buffer, size_t bytes, void **window, int flags)
{
	const char *s = getenv("FAKENCCL_WINDOW");
	(void)c;
	ENTER(" bytes=%zu flags=%d", bytes, flags);
	*window = s && *s == '0' ? NULL : buffer;
	return 0;
}

API int ncclCommWindowDeregister(comm *c, void *window) { (void)c; (void)window; ENTER(""); return 0; }
#endif
