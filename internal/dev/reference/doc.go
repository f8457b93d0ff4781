// Package reference makes docs/reference.md from the code: keys of a job, columns, tables, verbs and exit codes, described by the
// comments in the code. Its test compares the file, and `make reference` writes it.
package reference
