// Package mutation proves that the tests of the all-reduce kernels would notice
// if something in them were missing. It takes the PTX that ships, breaks it in
// one place at a time, and runs a small workload with each of these mutants on the
// software device's weak memory model. A mutant whose results are always right
// has survived: either the workload is too weak, or the mutant is as good as the
// kernel, for a reason that stands in equivalent.go.
//
// Of the copy engines' calls the graph is broken too: each edge between its branches
// is left out. The same workload explores the kernels as they are, with many seeds.
//
// Rules:
//
//   - Excuses are read from a kernel's text alone, and fit no mutant that was found out.
//   - Nothing excuses a mutant that lies where no round has been.
package mutation
