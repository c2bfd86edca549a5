// Package importer reads the logs of other programs and makes results of them,
// so that every number stands in one convention: times in µs, bandwidths in
// 10^9 bytes per second, bus bandwidth = algorithm bandwidth · 2(n−1)/n.
//
// It reads nccl-tests (text since 2.0, JSON versions 1 to 3), mscclpp-test and
// both tables of MSCCL++'s Python benchmarks, OSU's osu_allreduce, the PyTorch
// script of the MSCCL++ discussion on NVLS in containers, and NCCL's tuning
// lines. docs/import.md shows each layout.
//
// Rules of the package:
//
//   - Nothing is guessed in silence. A line that looks like data and cannot be
//     read is an error with file and line; what is converted, left out or taken
//     for granted is a note of the result.
//   - Numbers stay as printed. A bandwidth is computed only where the log prints
//     none, or fewer than three digits of it.
//   - Every row is checked against itself: size, time and both bandwidths must
//     agree within their rounding, or the units are not what the header says.
//   - All rows of a result have the same number of ranks.
//   - A prediction of NCCL's model is no measurement and never becomes a row.
//   - Logs are read as a stream, and many rows wait on disk: memory grows with
//     what is different in a log, within the bounds of limits.go, and not with its
//     length or its rows.
package importer
