// Package progress formats the facts of a run for people: several lines on a terminal, one line elsewhere, and the status of a
// whole output. It reads only runfiles.Facts, so a run and `status` show the same.
package progress
