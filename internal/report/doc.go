// Package report writes results as a page for people: Markdown with charts
// beside it, and one HTML file that needs nothing else.
//
// Rules of the package:
//
//   - Both forms say the same. They are made from one list of blocks.
//   - What is no measurement says so above every table and chart.
//   - A report is written also for a run that failed or measured nothing: why is
//     what its reader looks for.
//   - Only environment variables of the result format's list are shown, whatever
//     a file holds.
//   - The same results give the same bytes.
package report
