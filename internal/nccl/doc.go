// Package nccl measures NCCL beside this project's own all-reduce: it opens
// libnccl.so.2 at run time and puts ncclAllReduce on the group's stream.
//
// Mode nccl is whatever NCCL picks for buffers of any origin. Mode
// nccl-symmetric reduces buffers that NCCL allocated and registered as a
// symmetric window, for which it has kernels of their own since 2.27.
//
// Rules of the package:
//
//   - While a site switch forbids multicast (see package site), NCCL must not use
//     NVLS. NCCL_NVLS_ENABLE=0 is then put into the C environment before the
//     library is opened, read back before every call that makes NCCL read it,
//     and the library is refused when that cannot be ensured.
//   - What NCCL cannot do here is a failure.Unavailable with the reason, found
//     alike by all ranks; the other modes of a run go on.
//   - NCCL's communicators are blocking, as those of nccl-tests: with
//     non-blocking ones every call goes through a thread of NCCL's, which is
//     another measurement. Deadlines are therefore held from outside: a set-up
//     call that does not return is a failure.Timeout, and a watchdog reports an
//     all-reduce call that does not. A thread inside NCCL cannot be called back, so
//     after either the process can only end.
//   - NCCL tells which algorithm it chose only in its log, whose writing would
//     slow the calls that are measured. Listen turns it on for a call that is
//     not; what NCCL does not tell is recorded as its choice, not guessed.
package nccl
