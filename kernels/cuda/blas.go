//go:build cuda && linux

package cuda

import (
	"fmt"
	"os"
	"unsafe"

	"latentbeam/kernels"
	"latentbeam/kernels/cuda/cublaslt"
)

// EnvCublasLt is the environment variable that makes Linear use cublasLt for products of 16-bit matrices if it is 1. It is part
// of the numeric class. By default all products use our kernels: they are tested to give rows that do not depend on their
// neighbours, cublasLt only where somebody runs the test suite with it.
const EnvCublasLt = "LATENTBEAM_CUBLASLT"

const (
	// ltRows is the number of rows for which an algorithm is chosen; it is used for any number.
	ltRows = 8192
	// ltMinSize is the least number of elements of a weight whose products use cublasLt.
	ltMinSize = 1 << 16
	// ltWorkspace is the greatest amount of memory that an algorithm may need, in bytes.
	ltWorkspace = 32 << 20
)

// blas is cublasLt in an engine's context; it is used on the engine's thread.
type blas struct {
	handle cublaslt.Handle
	pinned map[ltKey]*cublaslt.Algorithm
}

// ltKey holds everything that the choice of an algorithm depends on.
type ltKey struct {
	bf16, bias bool
	n, k       int
}

// wantsBlas reports whether the environment requests cublasLt.
func wantsBlas() bool { return os.Getenv(EnvCublasLt) == "1" }

// blasClass returns the part of the numeric class that cublasLt adds.
func blasClass() string {
	if !wantsBlas() {
		return ""
	}
	l, err := cublaslt.Open()
	if err != nil {
		return "" // New returns the error
	}
	return "+cublaslt-" + l.Version
}

// openBlas opens cublasLt for an engine if the environment requests it, on the engine's thread.
func (e *engine) openBlas() error {
	if !wantsBlas() {
		return nil
	}
	if _, err := cublaslt.Open(); err != nil {
		return fmt.Errorf("%s=1: %w", EnvCublasLt, err)
	}
	h, err := cublaslt.NewHandle()
	if err != nil {
		return err
	}
	e.blas = &blas{handle: h, pinned: map[ltKey]*cublaslt.Algorithm{}}
	return nil
}

// algorithm returns the algorithm for a weight's shape. It is chosen at the first call, on the engine's thread.
func (l *blas) algorithm(p cublaslt.Product) (*cublaslt.Algorithm, error) {
	key := ltKey{p.BF16, p.Bias != 0, p.N, p.K}
	if a := l.pinned[key]; a != nil {
		return a, nil
	}
	p.M, p.LDX, p.LDW, p.LDD = ltRows, p.K, p.K, p.N
	a, err := l.handle.Choose(p, ltWorkspace)
	if err != nil {
		return nil, fmt.Errorf("cublasLt has no algorithm for a weight (%d, %d): %w", p.N, p.K, err)
	}
	l.pinned[key] = a
	return a, nil
}

// blasTakes reports whether cublasLt computes a product. The answer depends on types and the weight's shape alone, never on the
// rows or on the operands' strides.
func (b *Backend) blasTakes(dst, x, w kernels.Tensor, ep kernels.Epilogue) bool {
	return b.eng.blas != nil && x.DType != kernels.F32 && x.DType == w.DType && x.DType == dst.DType &&
		w.Shape[0]%8 == 0 && w.Shape[1]%8 == 0 && w.Shape[0]*w.Shape[1] >= ltMinSize && len(ep.Parts) == 0 &&
		ep.Onto.IsZero() && (ep.Bias.IsZero() || ep.Bias.DType == dst.DType)
}

// blasLinear is Linear with cublasLt. Operands with other strides than it needs are copied. The steps after the bias are
// separate, and each result is rounded to dst's type, as Epilogue requires.
func (b *Backend) blasLinear(op string, o []*operand, ep kernels.Epilogue) {
	m := b.arena.mark()
	defer b.arena.reset(m)
	dst, x, w, bias, residual, gate := o[0], b.denseRows(op, o[1]), b.denseRows(op, o[2]), o[3], o[4], o[5]
	if bias != nil && (bias.Strides[0] != 1 || bias.ptr%16 != 0) {
		bias = b.dense(op, bias)
	}
	out := dst
	if residual != nil || gate != nil || !aligned(dst) {
		out, _ = b.scratch(op, dst.DType, dst.Shape)
	}
	if b.err != nil {
		return
	}
	p := cublaslt.Product{BF16: x.DType == kernels.BF16, N: w.Shape[0], K: w.Shape[1],
		M: x.Len() / w.Shape[1], X: uintptr(x.ptr), W: uintptr(w.ptr), D: uintptr(out.ptr),
		LDX: rowStep(x), LDW: rowStep(w), LDD: rowStep(out)}
	if bias != nil {
		p.Bias = uintptr(bias.ptr)
	}
	b.product(op, p)
	if ep.Act != kernels.Identity {
		b.unary(op, out, out, ep.Act)
	}
	if gate != nil {
		b.binary(op, out, out, gate, kernels.Mul)
	}
	switch {
	case residual != nil:
		b.binary(op, dst, residual, out, kernels.Add)
	case out != dst:
		b.copyOf(op, dst, out)
	}
}

// product queues p, with memory for its algorithm.
func (b *Backend) product(op string, p cublaslt.Product) {
	var a *cublaslt.Algorithm
	err := b.eng.runAndWait(func() (err error) {
		a, err = b.eng.blas.algorithm(p)
		return err
	})
	if err != nil {
		b.fail("%s: %w", op, err)
		return
	}
	workspace, err := b.arena.acquire(a.Workspace())
	if err != nil {
		b.fail("%s: %w", op, err)
		return
	}
	b.push(command{op: op, run: func() error {
		return b.eng.blas.handle.Run(p, a, uintptr(workspace), unsafe.Pointer(b.stream.C()))
	}})
}

// denseRows returns o, or a copy of it, as a matrix with aligned rows at equal distances and contiguous columns.
func (b *Backend) denseRows(op string, o *operand) *operand {
	if aligned(o) {
		return o
	}
	return b.dense(op, o)
}

// dense returns a dense copy of o in the arena.
func (b *Backend) dense(op string, o *operand) *operand {
	d, ok := b.scratch(op, o.DType, o.Shape)
	if !ok {
		return o
	}
	b.copyOf(op, d, o)
	return d
}

// aligned reports whether o already has the form that denseRows returns.
func aligned(o *operand) bool {
	last := len(o.Shape) - 1
	if o.Strides[last] != 1 || o.ptr%16 != 0 {
		return false
	}
	s, err := newShape(last, o)
	return err == nil && len(s.dims) == 1 && (s.dims[0] == 1 || s.strides[0][0]%8 == 0 &&
		s.strides[0][0] >= o.Shape[last])
}

// rowStep returns the distance of neighbouring rows of an aligned matrix.
func rowStep(o *operand) int {
	last := len(o.Shape) - 1
	if s, err := newShape(last, o); err == nil && s.dims[0] > 1 {
		return s.strides[0][0]
	}
	return o.Shape[last]
}
