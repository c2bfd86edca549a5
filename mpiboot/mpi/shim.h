/* MPI without mpi.h: entry points found at run time, called by the ABI of the
 * library that was found. See shim.c. */
#ifndef NVLS_MPI_SHIM_H
#define NVLS_MPI_SHIM_H

#include <stddef.h>
#include <stdint.h>

typedef struct nvls_mpi {
	/* Handles are pointers (Open MPI, MPI-5) or ints (MPICH). */
	int pointer_handles;
	uintptr_t comm_world, byte, int64, float64;
	uintptr_t errors_return;
	/* Entry points; their types depend on pointer_handles. */
	void *init_thread, *finalize, *abort, *comm_rank, *comm_size, *barrier,
		*bcast, *allgather, *allreduce, *error_string, *comm_set_errhandler,
		*get_library_version;
} nvls_mpi;

int nvls_mpi_abi_major(void *fn);
int nvls_mpi_init(const nvls_mpi *m, int required, int *provided);
int nvls_mpi_finalize(const nvls_mpi *m);
int nvls_mpi_abort(const nvls_mpi *m, int code);
int nvls_mpi_errors_return(const nvls_mpi *m);
int nvls_mpi_rank(const nvls_mpi *m, int *rank);
int nvls_mpi_size(const nvls_mpi *m, int *size);
int nvls_mpi_barrier(const nvls_mpi *m);
int nvls_mpi_bcast(const nvls_mpi *m, void *buf, int bytes, int root);
int nvls_mpi_allgather(const nvls_mpi *m, const void *send, int bytes, void *recv);
int nvls_mpi_allreduce(const nvls_mpi *m, const void *send, void *recv, int count,
		       uintptr_t type, uintptr_t op);
int nvls_mpi_error_string(const nvls_mpi *m, int code, char *text, int *len);
int nvls_mpi_library_version(const nvls_mpi *m, char *text, int *len);

/* Says text on stderr and leaves with code if the process ends before the
 * matching nvls_mpi_disarm: a library may call exit() inside MPI_Init. */
void nvls_mpi_arm(const char *text, int code);
void nvls_mpi_disarm(void);

/* Says text on stderr and leaves with code if the calling thread gets SIGSEGV or
 * SIGBUS before the matching nvls_mpi_unguard: a library that maps memory which is
 * not there crashes, and Go's trace of that tells nobody what to do. */
void nvls_mpi_guard(const char *text, int code);
void nvls_mpi_unguard(void);

#endif
