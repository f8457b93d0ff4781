// Package cpu is the backend for any processor, without cgo: it has generated assembly for AVX-512, with and without BF16, and
// for AVX2, and plain Go for other processors. The tier is chosen when a backend is made (tier.go). Its name is the numeric
// class; several tiers may compute the same class with the same bits (shared.go). The package knows no model and no file
// format.
//
// Each operation has a file that checks its operands and divides the work into tasks. Two families of routines do the work.
// Linear, Conv and Attention use products of packed panels (reduce.go, pack.go); everything else uses arithmetic on rows of
// fp32 (rowmath.go). Only Attention uses softmax.go and short.go. Each routine has a portable version in Go, which defines it,
// and generated ones (gen).
//
// The order of additions fixes the bits (decision 007), independent of the threads, the batch and the neighbours. A product adds
// stageTerms terms in one chain, then the stages in index order. A query adds keyBlock keys in one chain, then the blocks in
// index order. Norms add in float64, in lanes that depend on the length; GroupNorm adds blocks of groupBlock pixels in index
// order. Tiers differ in lanes and in the polynomial of e^x. In plain Go every product is rounded by an explicit conversion, so
// a compiler that may fuse multiply and add (arm64, GOAMD64=v3) gives the same bits.
//
// To add an operation: write its file and its tasks in calls.go; for a new loop write a portable routine first, then a family
// in gen. To add an instruction set: write a tier with its tables.
package cpu
