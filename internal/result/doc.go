// Package result holds what a run measured and the formats in which it is
// told: the text table, JSON and CSV.
//
// Rules of the package:
//
//   - A number of the software device, or of ranks that share one GPU, carries
//     its label in every format. Nothing here can print it without.
//   - Totals (average bus bandwidth, failed checks) are computed from the rows
//     whenever they are needed, so that they cannot disagree with them.
//   - What is not known is absent: null in JSON, empty in CSV, N/A in text.
//     Zero means zero.
//   - One convention for bandwidth: nccl-tests'. A GB is 10^9 bytes.
//   - Only environment variables of a fixed list are recorded, never all.
package result
