package nn

import (
	"sync"

	"latentbeam/kernels"
	"latentbeam/stages/cost"
)

// PeakBytes returns the largest amount of memory that f has allocated at any moment. f runs on a backend that computes nothing,
// so a model's memory is found by running its own code on shapes, and the answer cannot differ from the code. Weights and a
// device's internal scratch memory are not counted.
func PeakBytes(f func(be kernels.Backend) error) (int64, error) {
	r, err := rehearse(f)
	return r.Bytes, err
}

// Work counts the kernels that f calls, on a backend that computes nothing.
func Work(f func(be kernels.Backend) error) (cost.Kernels, error) {
	r, err := rehearse(f)
	return r.Kernels, err
}

// Rehearsal is what a function needs of a backend: see PeakBytes and Work.
type Rehearsal struct {
	Bytes   int64
	Kernels cost.Kernels
}

func rehearse(f func(be kernels.Backend) error) (Rehearsal, error) {
	inner := &meter{}
	m := kernels.NewMetered(inner)
	err := f(m)
	return Rehearsal{inner.peak, cost.KernelsOf(m.Usage())}, err
}

// Rehearsals caches rehearsals, because a prediction needs the same ones several times. The zero value is empty; nil caches
// nothing.
type Rehearsals struct{ known sync.Map }

// Of returns the rehearsal of f. Equal keys need equal functions.
func (r *Rehearsals) Of(key any, f func(be kernels.Backend) error) (Rehearsal, error) {
	if r == nil {
		return rehearse(f)
	}
	if known, found := r.known.Load(key); found {
		return known.(Rehearsal), nil
	}
	out, err := rehearse(f)
	if err == nil {
		r.known.Store(key, out)
	}
	return out, err
}

// meter is a backend that computes nothing and counts allocated memory.
type meter struct{ live, peak int64 }

// noClass is the numeric class of a backend that computes nothing.
const noClass = "none"

// Rehearses reports whether a backend computes nothing. The host can then skip its computations too.
func Rehearses(be kernels.Backend) bool { return be.Class() == noClass }

func (m *meter) Class() string  { return noClass }
func (m *meter) Device() string { return "none" }
func (m *meter) Wait() error    { return nil }

func (m *meter) Capabilities() kernels.Capabilities { return kernels.Capabilities{} }

func (m *meter) Weights(dt kernels.DType, shape []int, _ []byte) (kernels.Tensor, error) {
	return kernels.NewTensor(dt, m, shape...), nil
}

func (m *meter) Alloc(dt kernels.DType, shape ...int) kernels.Tensor {
	t := kernels.NewTensor(dt, m, shape...)
	m.live += int64(t.Len()) * int64(dt.Size())
	m.peak = max(m.peak, m.live)
	return t
}

func (m *meter) Scope() (end func()) {
	before := m.live
	return func() { m.live = before }
}

// Linear counts both operands a second time, as bytes, for 8-bit products.
func (m *meter) Linear(_, x, w kernels.Tensor, ep kernels.Epilogue) {
	if ep.Int8 {
		m.peak = max(m.peak, m.live+int64(x.Len())+int64(w.Len()))
	}
}

func (m *meter) Upload(kernels.Tensor, []float32)                             {}
func (m *meter) Download([]float32, kernels.Tensor) error                     { return nil }
func (m *meter) Copy(_, _ kernels.Tensor)                                     {}
func (m *meter) Gather(_, _ kernels.Tensor, _ []int32)                        {}
func (m *meter) Attention(_, _, _, _ kernels.Tensor, _ kernels.AttentionSpec) {}
func (m *meter) Norm(_, _ kernels.Tensor, _ kernels.NormSpec)                 {}
func (m *meter) Rope(_, _, _, _ kernels.Tensor)                               {}
func (m *meter) Unary(_, _ kernels.Tensor, _ kernels.UnaryOp)                 {}
func (m *meter) Binary(_, _, _ kernels.Tensor, _ kernels.BinaryOp)            {}
func (m *meter) Conv(_, _, _ kernels.Tensor, _ kernels.ConvSpec)              {}
