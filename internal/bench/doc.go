// Package bench is a run: it joins the world, opens a group, sets up the modes
// that were asked for, sweeps the sizes, times and verifies each, and tells what
// it found.
//
// Rules:
//
//   - What a rank does alone brings its error to the next vote; only a failed
//     vote, or one of its waits, ends the run. So no rank waits for one that has
//     given up.
//   - A mode that cannot run is an error that names the reason. Only with
//     fallback = "allow" is it replaced, and then the run says by what and why.
//   - Inputs are fresh and outputs poisoned before each verified call, and
//     verified calls follow each other without any synchronisation by the host:
//     the barriers of the kernels are all that keeps them apart.
//   - Times are taken as nccl-tests takes them, so that rows compare.
package bench
