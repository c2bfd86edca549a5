// Package endtoend tests the program as its users run it: the built binary, one
// process a rank, started by Open MPI's mpirun, MPICH's mpiexec, srun and the
// program's own --np, on the software device. It has no code but tests.
//
// Rules of its tests:
//
//   - What is checked is what a user gets: exit code, words, result files.
//   - Every process that a test starts, and every name that one leaves in the
//     abstract socket namespace or in /dev/shm, is looked for after the test.
//   - Nothing waits for a time: a condition is polled until a limit.
//   - A launcher that is not installed is a skip that names its package, or a
//     failure where NVLS_ALLREDUCE_REQUIRE=all (see internal/slurmtest).
package endtoend
