// Package cpu is the backend that is always there, without cgo: generated assembly for AVX-512, with and
// without BF16, and for AVX2, and plain Go for any other processor. The tier is chosen when a backend is made
// (tier.go); its name is the numeric class, which several tiers may compute with the same bits (shared.go). No model
// and no file format enters.
//
// One file for each operation checks its operands and cuts the work into tasks. Below lie two families:
// products of packed panels (reduce.go, pack.go), of which Linear, Conv and Attention consist, and arithmetic
// on rows of fp32 (rowmath.go), of which everything else consists; softmax.go and short.go belong to
// Attention alone. Each has a portable routine in Go, which is its definition, and generated ones (gen).
//
// Order of additions, which fixes the bits (D3), whatever the threads, the batch or the neighbours: a product
// adds stageTerms terms in one chain, then the stages in index order. A query adds keyBlock keys in one
// chain, then the blocks in index order. Norms add in float64, in lanes that the length decides; GroupNorm
// adds blocks of groupBlock pixels in index order. Tiers differ in lanes and in the polynomial of e^x. In
// plain Go every product is rounded by an explicit conversion, so a compiler that may fuse multiply and add
// (arm64, GOAMD64=v3) gives the same bits.
//
// To add an operation: its file, its tasks in calls.go, and for a new loop a portable routine first, then a
// family in gen. To add an instruction set: a tier with its tables.
package cpu
