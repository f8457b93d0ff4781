// Package reference makes docs/reference.md out of the code: keys of a job, columns, tables, verbs and exit codes, with
// the comments that stand there. Its test compares the file, and `make reference` writes it anew.
package reference
