// Package exec has the stage `exec`: a user's program, in any language, as a stage of a job. The program keeps running. It
// reads batches as lines of JSON from file descriptor 3 and answers on descriptor 4. Tensors and media are passed as files, in
// a scratch directory that the stage owns. docs/exec.md is the specification.
//
// The stage starts one program for each batch that is computed at a time, and supervises it: a program that crashes, hangs or
// answers wrongly is killed with its whole process group and started again.
package exec
