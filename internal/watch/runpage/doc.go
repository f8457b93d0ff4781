// Package runpage writes report.html of a run: where its time and memory went, by stage, shape and device, beside what was
// predicted. The page is one file with inline plots, and runs no script. It holds facts of a run, so it lies in runs/ and is
// no part of what equal jobs make equal.
package runpage
