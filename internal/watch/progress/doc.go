// Package progress shows facts of a run to people: a few lines on a terminal, one line elsewhere, and the status of a
// whole output. It reads runs.Facts alone, so a run and `status` say the same.
package progress
