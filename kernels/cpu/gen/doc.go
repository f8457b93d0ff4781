// Command gen writes the assembly of package cpu. After a change, run `go run .` in this folder and commit the files that it
// writes. A test of package cpu runs it and compares. It is a module of its own without dependencies, so that the main module
// does not contain it.
//
// Each file here is a family of routines and writes a pair of files. asm.go has the notation, gemm*.go the micro-kernels, and
// pack*.go the layout of their operands. To add a family, write its file and add it to the list in main.go. Routines take
// pointers and byte strides and do not branch on values. A call takes at most tens of microseconds, because assembly cannot be
// preempted and the Go scheduler has to wait for it.
//
// Go reserves the registers X15, R14 and BP; Z16-Z31 and the mask registers are free. AVX-512 instructions that the Go
// assembler does not know are written as bytes (evex).
package main
