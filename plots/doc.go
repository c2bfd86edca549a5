// Package plots draws charts of results: PNG, SVG and PDF, made by gonum/plot
// inside the program, so that a cluster needs neither gnuplot nor Python.
//
// Rules of the package:
//
//   - A chart can be read in black and white: series differ in marker and dash,
//     not only in colour, and the colours are safe for colour-blind readers.
//   - What is no measurement (simulated, or ranks that share a GPU) says so in
//     large letters across every panel, in the axis labels and in the legend.
//     No option takes the words away.
//   - The same results give the same bytes: no clock, no random number, no map
//     order goes into a file.
//   - A chart never hides that a run was cut short or computed wrong data.
package plots
