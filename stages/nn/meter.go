package nn

import "latentbeam/kernels"

// PeakBytes returns the most memory that f has allocated at any moment on the backend it is given. That
// backend computes nothing, so a model can be asked what a batch needs by running it on shapes alone: the
// answer cannot drift away from the code. Weights and a device's own scratch memory are not counted.
func PeakBytes(f func(be kernels.Backend) error) (int64, error) {
	m := &meter{}
	err := f(m)
	return m.peak, err
}

// Work returns the FLOP of the products, attentions and convolutions in f, a multiplication and an addition
// counting two, found in the same way. The rest of a model is small beside them.
func Work(f func(be kernels.Backend) error) (float64, error) {
	m := &meter{}
	err := f(m)
	return m.work, err
}

// meter is the backend of PeakBytes and Work.
type meter struct {
	live, peak int64
	work       float64
}

func (m *meter) Class() string  { return "none" }
func (m *meter) Device() string { return "none" }
func (m *meter) Wait() error    { return nil }

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

// Linear counts x (..., K) times w (N, K).
func (m *meter) Linear(dst, x, _ kernels.Tensor, _ kernels.Epilogue) {
	m.work += 2 * float64(dst.Len()) * float64(x.Dim(-1))
}

// Attention counts q k^T and its product with v, over the keys that are valid.
func (m *meter) Attention(_, q, k, _ kernels.Tensor, spec kernels.AttentionSpec) {
	queries, keys := float64(q.Len()), float64(k.Dim(-3))
	if len(spec.KeyLens) > 0 {
		keys = 0
		for _, n := range spec.KeyLens {
			keys += float64(n) / float64(len(spec.KeyLens))
		}
	}
	m.work += 4 * queries * keys
}

// Conv counts dst (..., Cout) times the taps and channels of w (Cout, Cin, taps...).
func (m *meter) Conv(dst, _, w kernels.Tensor, _ kernels.ConvSpec) {
	m.work += 2 * float64(dst.Len()) * float64(w.Len()/max(1, w.Dim(0)))
}

func (m *meter) Upload(kernels.Tensor, []float32)                  {}
func (m *meter) Download([]float32, kernels.Tensor) error          { return nil }
func (m *meter) Copy(_, _ kernels.Tensor)                          {}
func (m *meter) Gather(_, _ kernels.Tensor, _ []int32)             {}
func (m *meter) Norm(_, _ kernels.Tensor, _ kernels.NormSpec)      {}
func (m *meter) Rope(_, _, _, _ kernels.Tensor)                    {}
func (m *meter) Unary(_, _ kernels.Tensor, _ kernels.UnaryOp)      {}
func (m *meter) Binary(_, _, _ kernels.Tensor, _ kernels.BinaryOp) {}
