// Package runpage writes report.html of a run. The page shows time and memory by stage, shape and device, and compares them with the
// forecast. It is one file with inline charts and without scripts. It contains facts of one run, so it is in runs/ and not
// among the results, which are equal for equal jobs.
package runpage
