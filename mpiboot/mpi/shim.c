#define _GNU_SOURCE
#include "shim.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* CALL picks the function type by the size of a handle. Passing an int where
 * the callee wants a pointer would work on today's 64-bit calling conventions
 * by accident; this does not depend on it. */
#define CALL(m, fn, iproto, iargs, pproto, pargs) \
	((m)->pointer_handles ? ((int (*) pproto)(m)->fn) pargs : ((int (*) iproto)(m)->fn) iargs)

#define I(h) ((int)(h))
#define P(h) ((void *)(h))

int nvls_mpi_abi_major(void *fn)
{
	int major = -1, minor = -1;
	if (((int (*)(int *, int *))fn)(&major, &minor) != 0)
		return -1;
	return major;
}

int nvls_mpi_init(const nvls_mpi *m, int required, int *provided)
{
	/* MPI allows null for argc and argv since version 2. */
	return ((int (*)(int *, char ***, int, int *))m->init_thread)(NULL, NULL, required, provided);
}

int nvls_mpi_finalize(const nvls_mpi *m)
{
	return ((int (*)(void))m->finalize)();
}

int nvls_mpi_abort(const nvls_mpi *m, int code)
{
	return CALL(m, abort, (int, int), (I(m->comm_world), code), (void *, int), (P(m->comm_world), code));
}

int nvls_mpi_errors_return(const nvls_mpi *m)
{
	return CALL(m, comm_set_errhandler,
		    (int, int), (I(m->comm_world), I(m->errors_return)),
		    (void *, void *), (P(m->comm_world), P(m->errors_return)));
}

int nvls_mpi_rank(const nvls_mpi *m, int *rank)
{
	return CALL(m, comm_rank, (int, int *), (I(m->comm_world), rank), (void *, int *), (P(m->comm_world), rank));
}

int nvls_mpi_size(const nvls_mpi *m, int *size)
{
	return CALL(m, comm_size, (int, int *), (I(m->comm_world), size), (void *, int *), (P(m->comm_world), size));
}

int nvls_mpi_barrier(const nvls_mpi *m)
{
	return CALL(m, barrier, (int), (I(m->comm_world)), (void *), (P(m->comm_world)));
}

int nvls_mpi_bcast(const nvls_mpi *m, void *buf, int bytes, int root)
{
	return CALL(m, bcast,
		    (void *, int, int, int, int), (buf, bytes, I(m->byte), root, I(m->comm_world)),
		    (void *, int, void *, int, void *), (buf, bytes, P(m->byte), root, P(m->comm_world)));
}

int nvls_mpi_allgather(const nvls_mpi *m, const void *send, int bytes, void *recv)
{
	return CALL(m, allgather,
		    (const void *, int, int, void *, int, int, int),
		    (send, bytes, I(m->byte), recv, bytes, I(m->byte), I(m->comm_world)),
		    (const void *, int, void *, void *, int, void *, void *),
		    (send, bytes, P(m->byte), recv, bytes, P(m->byte), P(m->comm_world)));
}

int nvls_mpi_allreduce(const nvls_mpi *m, const void *send, void *recv, int count,
		       uintptr_t type, uintptr_t op)
{
	return CALL(m, allreduce,
		    (const void *, void *, int, int, int, int),
		    (send, recv, count, I(type), I(op), I(m->comm_world)),
		    (const void *, void *, int, void *, void *, void *),
		    (send, recv, count, P(type), P(op), P(m->comm_world)));
}

int nvls_mpi_error_string(const nvls_mpi *m, int code, char *text, int *len)
{
	return ((int (*)(int, char *, int *))m->error_string)(code, text, len);
}

int nvls_mpi_library_version(const nvls_mpi *m, char *text, int *len)
{
	return ((int (*)(char *, int *))m->get_library_version)(text, len);
}

static char armed_text[4096];
static volatile int armed, armed_code, registered;

static void ended_inside_init(void)
{
	if (!armed)
		return;
	fflush(NULL); /* the library's own explanation first */
	ssize_t n = write(STDERR_FILENO, armed_text, strlen(armed_text));
	(void)n;
	_exit(armed_code);
}

void nvls_mpi_arm(const char *text, int code)
{
	snprintf(armed_text, sizeof armed_text, "%s", text);
	armed_code = code;
	armed = 1;
	if (!registered) {
		registered = 1;
		atexit(ended_inside_init);
	}
}

void nvls_mpi_disarm(void)
{
	armed = 0;
}

static char crash_text[4096];
static volatile int crash_code;
static volatile pid_t crash_thread;
static const int crash_signals[] = {SIGSEGV, SIGBUS};
static struct sigaction before_crash[2];

static void crashed(int sig, siginfo_t *info, void *context)
{
	if (syscall(SYS_gettid) == crash_thread) {
		ssize_t n = write(STDERR_FILENO, crash_text, strlen(crash_text));
		(void)n;
		_exit(crash_code);
	}
	/* Another thread's, which Go knows how to take. */
	const struct sigaction *before = &before_crash[sig == SIGBUS];
	if (before->sa_flags & SA_SIGINFO) {
		before->sa_sigaction(sig, info, context);
	} else if (before->sa_handler != SIG_DFL && before->sa_handler != SIG_IGN) {
		before->sa_handler(sig);
	} else {
		sigaction(sig, before, NULL);
		raise(sig);
	}
}

void nvls_mpi_guard(const char *text, int code)
{
	snprintf(crash_text, sizeof crash_text, "%s", text);
	crash_code = code;
	crash_thread = (pid_t)syscall(SYS_gettid);
	struct sigaction mine;
	memset(&mine, 0, sizeof mine);
	mine.sa_sigaction = crashed;
	mine.sa_flags = SA_SIGINFO | SA_ONSTACK;
	sigfillset(&mine.sa_mask);
	for (int i = 0; i < 2; i++)
		sigaction(crash_signals[i], &mine, &before_crash[i]);
}

void nvls_mpi_unguard(void)
{
	for (int i = 0; i < 2; i++)
		sigaction(crash_signals[i], &before_crash[i], NULL);
	crash_thread = 0;
}
