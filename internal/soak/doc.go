//go:build linux

// Package soak breaks runs of the real program, one fault at a time, and judges
// how they end: a fault × a stage × a launcher, and a fault of the driver × a
// call × a rank. It has tests only.
//
// The rules that every run is held to:
//
//   - every rank but the faulty one is gone within the configured timeouts plus
//     5 s, and nothing of the job is left soon after;
//   - a rank that outlives the fault says which stage it was and which rank was
//     missing, and all of them say one exit code;
//   - exit code 0 only for a run that is complete;
//   - what was measured is on disk, and marked as what it is.
//
// "go test" runs a sample. With NVLS_ALLREDUCE_SOAK=all, which "make soak" sets,
// it runs all and writes docs/failures.md.
package soak
