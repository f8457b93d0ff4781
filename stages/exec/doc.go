// Package exec holds the stage `exec`: a program of the user, in any language, as a stage of a job. The program stays
// alive and takes batches as lines of JSON on file descriptor 3, and answers on descriptor 4. Tensors and media go
// by file, in a scratch directory that the stage owns. docs/exec.md is the specification.
//
// The stage starts one program for each batch that is computed at a time, and supervises it: a program that crashes,
// hangs or answers wrongly is ended with its whole process group and started again.
package exec
