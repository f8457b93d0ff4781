//go:build cuda && linux

package cublaslt

/*
#cgo CFLAGS: -O2
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include "lt.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"latentbeam/kernels/cuda/library"
)

// EnvLibrary is the environment variable that names the library's file.
const EnvLibrary = "LATENTBEAM_LIBCUBLASLT"

// Library is the opened library.
type Library struct {
	Path    string
	Version string // such as 13.1.0
}

// Open finds and opens the library, once in a process.
var Open = sync.OnceValues(func() (Library, error) {
	return library.Open("cublasLt", EnvLibrary, []string{"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11"}, open)
})

func open(path string) (Library, error) {
	name, message := C.CString(path), (*C.char)(C.calloc(1, 512))
	defer C.free(unsafe.Pointer(name))
	defer C.free(unsafe.Pointer(message))
	if C.lb_lt_open(name, message, 512) != 0 {
		return Library{}, errors.New(path + ": " + C.GoString(message))
	}
	v := int(C.lb_lt_version())
	return Library{path, fmt.Sprintf("%d.%d.%d", v/10000, v%10000/100, v%100)}, nil
}

// Handle is a handle of the library for one context.
type Handle struct{ p unsafe.Pointer }

// NewHandle creates a handle for the current context of the calling thread.
func NewHandle() (Handle, error) {
	var h Handle
	return h, check("cublasLtCreate", C.lb_lt_create(&h.p))
}

// Product is D (M, N) = X (M, K) times the transpose of W (N, K), plus Bias (N) if that is not 0. All have the same 16-bit type.
// LDX, LDW and LDD are the distances between rows in elements. Addresses and rows must be aligned to 16 bytes.
type Product struct {
	BF16          bool // else fp16
	M, N, K       int
	LDX, LDW, LDD int
	X, W, Bias, D uintptr // on the device
}

func (p *Product) c() C.lb_lt_product {
	c := C.lb_lt_product{m: C.int64_t(p.M), n: C.int64_t(p.N), k: C.int64_t(p.K), ldx: C.int64_t(p.LDX),
		ldw: C.int64_t(p.LDW), ldd: C.int64_t(p.LDD), x: C.uint64_t(p.X), w: C.uint64_t(p.W),
		bias: C.uint64_t(p.Bias), d: C.uint64_t(p.D)}
	if p.BF16 {
		c.bf16 = 1
	}
	return c
}

// Algorithm is an algorithm of cublasLt for a product.
type Algorithm struct{ c C.lb_lt_algo }

// Workspace returns the bytes of device memory that the algorithm needs while it runs.
func (a *Algorithm) Workspace() int { return int(a.c.workspace) }

// Choose returns the best algorithm for p that does not split sums and needs at most workspace bytes.
func (h Handle) Choose(p Product, workspace int) (*Algorithm, error) {
	c, a := p.c(), &Algorithm{}
	return a, check("cublasLtMatmulAlgoGetHeuristic", C.lb_lt_choose(h.p, &c, C.size_t(workspace), &a.c))
}

// Run enqueues p on stream. The workspace must be large enough for a.
func (h Handle) Run(p Product, a *Algorithm, workspace uintptr, stream unsafe.Pointer) error {
	c := p.c()
	return check("cublasLtMatmul", C.lb_lt_run(h.p, &c, &a.c, C.uint64_t(workspace), stream))
}

// check converts a status to an error.
func check(call string, status C.int) error {
	if status == 0 {
		return nil
	}
	text := map[C.int]string{1: "not initialised", 3: "no memory", 7: "invalid value", 8: "not on this architecture",
		13: "the launch failed", 14: "internal error", 15: "not supported"}[status]
	return fmt.Errorf("%s: status %d (%s)", call, int(status), text)
}
