// Package compare sets two results side by side, size by size, and tells which
// differences are more than noise.
//
// Rules of the package:
//
//   - A row is compared with the row of the same mode, size, placement, data
//     type, operation and use of graphs; what one side lacks is named. Options
//     choose other modes or types, or the fastest of several modes at each size.
//   - Times are compared by medians, and each median has a 95 % confidence
//     interval from order statistics, which assumes nothing about the
//     distribution. Two medians differ when their intervals do not overlap. This
//     is what "Scientific Benchmarking of Parallel Computing Systems" (SC15) asks
//     for.
//   - Where only averages exist there is no interval, and the verdict says so
//     instead of guessing.
//   - Iterations of one run tell the noise within that run only; docs/compare.md
//     says what that leaves out.
//   - Results of a different number of ranks, or of which one is simulated, are
//     not compared.
package compare
