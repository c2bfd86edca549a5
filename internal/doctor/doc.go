//go:build linux

// Package doctor says which modes will work on this node, in this container,
// under this launcher, and for each mode that will not, exactly why.
//
// Probes look at the machine from cheap to dear. Each gives findings: what was
// asked, the answer, the value that was read and where, which modes it costs,
// what to do about it and who can. Rules:
//
//   - A probe has three outcomes: yes, no, could not tell. "Could not tell" never
//     counts as yes: a mode is only said to work after it has worked here.
//   - No finding claims a cause that was not probed. What a driver's code may mean
//     is told as that.
//   - What may hang or break the process is done in processes of its own, with a
//     deadline: sharing GPU memory between peers, and multicast.
//   - While a site switch is on, the doctor makes no multicast call and resolves
//     none (package site).
//   - Under a launcher every rank looks at its own surroundings. Equal findings
//     are told once, with the ranks that made them.
//   - Words about NVLS are those of package nvls, and words about the choice of
//     devices those of package collective: a run that fails says the same.
package doctor
