// Package nvls performs all-reduces with NVLink SHARP: the NVSwitch reduces and
// replicates, driven by multimem instructions on a multicast object.
//
// ZeroCopy works on buffers whose memory is bound to a multicast object itself;
// CopyIn takes any buffer and passes it through a bound staging buffer.
//
// Rules:
//
//   - The multicast object is shared by a POSIX file descriptor. FABRIC handles,
//     and with them IMEX, are not needed on one node and never asked for.
//   - Set-up goes in lockstep: every stage ends in a vote, because binding blocks
//     in the driver until all devices were added, and because falling back must be
//     decided by all. Binding runs under a watchdog; "not ready" (802) is tried
//     again by all ranks together, a bounded number of times.
//   - What the switch cannot do is refused by name (Supports), with the mode that
//     can do it.
package nvls
