// Command gen writes the assembly of package cpu: go run . in this folder after every change, and commit
// what it wrote. A test of package cpu runs it again and compares. It is a module of its own without
// dependencies, so that the engine's module knows nothing of it.
//
// One file here is one family of routines and one pair of generated files: asm.go is the notation,
// gemm*.go the micro-kernels, pack*.go the layout of their operands. To add a family, write its file and
// name it in main.go. Routines take pointers and byte strides, hold no branches on values, and are short
// enough (tens of microseconds) not to keep the Go scheduler waiting, since assembly cannot be preempted.
//
// Registers: X15, R14 and BP belong to Go; Z16-Z31 and the mask registers are free. AVX-512 instructions
// the Go assembler does not know are written as bytes (evex).
package main
