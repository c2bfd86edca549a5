//go:build linux

// Package mpiboot finds out who this process is and who the others are, and
// gives the ranks of one host the means to decide together and to hand each
// other file descriptors.
//
// Join reads what the launcher left in the environment (mpirun of Open MPI,
// mpiexec of MPICH and its family, srun, or this program's own Launch), opens
// the MPI library that fits the launcher if one is needed, and connects the
// ranks of this host to each other. Rules:
//
//   - MPI serves to learn rank and size, to exchange names and to leave
//     together. Everything else between the ranks of a host goes over Unix
//     sockets, with or without MPI in the same way.
//   - Every wait has a deadline and says which ranks did not come, to which
//     stage. A rank that ended is noticed at once. Ranks that are at different
//     stages are told so.
//   - Decisions are votes: every rank learns every rank's verdict, so all go on
//     or none does.
//   - Memory handles travel as descriptors (SCM_RIGHTS), whose sender the kernel
//     vouches for. No process number is ever exchanged: it would mean nothing in
//     another container.
//   - A planned end is Finish: all ranks agree on one exit code. A fatal error
//     of one rank is Abort. Nothing else may end the process after Join.
package mpiboot
