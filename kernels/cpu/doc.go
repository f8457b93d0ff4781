// Package cpu is the backend that is always there: plain Go, no cgo, no model, no file format. It is the
// reference that faster engines are tested against, so the clearest code wins unless a benchmark says
// otherwise.
//
// Order of additions, which fixes the bits of class "cpu/go" (D3): a product sums blockK terms one after
// the other and adds the blocks in index order; norms sum in float64 in four fixed lanes; GroupNorm adds
// blocks of groupBlock pixels in index order. Every product is rounded by an explicit conversion, so a
// compiler that may fuse multiply and add (arm64, GOAMD64=v3) gives the same bits.
//
// To speed up an operation, replace the function below it that works on packed panels (micro.go) or on
// rows (math.go); validation, views and the split over threads stay as they are.
package cpu
