/* A library of the MPI 5.0 standard ABI with a world of one, which refuses any
 * handle but those that the standard's table gives. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define WORLD 0x101
#define BYTE 0x247
#define INT64 0x258
#define DOUBLE 0x214
#define ERR_COMM 5
#define ERR_TYPE 3
#define ERR_OP 9

static int threads, returns;

int MPI_Abi_get_version(int *major, int *minor) { *major = 1; *minor = 0; return 0; }
int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
	if (argc || argv || required != 1024)
		return 16;
	threads = required;
	*provided = required;
	return 0;
}
int MPI_Finalize(void) { return threads ? 0 : 16; }
int MPI_Abort(void *comm, int code) { return (uintptr_t)comm == WORLD ? code : ERR_COMM; }
int MPI_Comm_set_errhandler(void *comm, void *h)
{
	returns = (uintptr_t)h == 0x143;
	return (uintptr_t)comm == WORLD && returns ? 0 : ERR_COMM;
}
int MPI_Comm_rank(void *comm, int *rank) { *rank = 0; return (uintptr_t)comm == WORLD ? 0 : ERR_COMM; }
int MPI_Comm_size(void *comm, int *size) { *size = 1; return (uintptr_t)comm == WORLD ? 0 : ERR_COMM; }
int MPI_Barrier(void *comm) { return (uintptr_t)comm == WORLD ? 0 : ERR_COMM; }
int MPI_Bcast(void *buf, int n, void *type, int root, void *comm)
{
	(void)buf; (void)n;
	if ((uintptr_t)type != BYTE)
		return ERR_TYPE;
	return (uintptr_t)comm == WORLD && root == 0 ? 0 : ERR_COMM;
}
int MPI_Allgather(const void *s, int n, void *st, void *r, int m, void *rt, void *comm)
{
	if ((uintptr_t)st != BYTE || (uintptr_t)rt != BYTE || n != m)
		return ERR_TYPE;
	memcpy(r, s, n);
	return (uintptr_t)comm == WORLD ? 0 : ERR_COMM;
}
/* "Reduces" to the handles that it was given, so that the caller can see them. */
int MPI_Allreduce(const void *s, void *r, int n, void *type, void *op, void *comm)
{
	(void)s; (void)n;
	if ((uintptr_t)op < 0x21 || (uintptr_t)op > 0x24)
		return ERR_OP;
	switch ((uintptr_t)type) {
	case INT64: *(int64_t *)r = (int64_t)(uintptr_t)op; break;
	case DOUBLE: *(double *)r = (double)(uintptr_t)op; break;
	default: return ERR_TYPE;
	}
	return (uintptr_t)comm == WORLD ? 0 : ERR_COMM;
}
int MPI_Error_string(int code, char *text, int *len) { *len = sprintf(text, "fake error\n %d", code); return 0; }
int MPI_Get_library_version(char *text, int *len) { *len = sprintf(text, "Fake MPI 5.0\nsecond line"); return 0; }
