package kernels

import (
	"sync"
	"time"
)

// Metered is a Backend that counts its operations and their time. It passes every call on to the backend inside. Usage is safe
// for concurrent use.
type Metered struct {
	Backend
	measure func(report func(time.Duration)) (end func()) // of the backend inside; nil: the work takes as long as the call
	report  [ops]func(time.Duration)                      // by operation: adds a measured time to usage
	endSpan func()                                        // ends the span of the current call

	mu    sync.Mutex
	usage Usage
}

// NewMetered returns be with counters at zero.
func NewMetered(be Backend) *Metered {
	m := &Metered{Backend: be}
	if m.measure = be.Capabilities().Time; m.measure != nil {
		for op := range m.report {
			m.report[op] = func(d time.Duration) { m.addTime(Op(op), d) }
		}
	}
	return m
}

// Capabilities returns the capabilities of the inner backend, without Time, because spans do not nest, and with Count.
func (m *Metered) Capabilities() Capabilities {
	can := m.Backend.Capabilities()
	can.Time, can.Count = nil, m.count
	return can
}

func (m *Metered) count(op Op, c Count) {
	m.mu.Lock()
	m.usage[op].add(c)
	m.mu.Unlock()
}

// Usage returns the counts so far. On a device that computes asynchronously, times are complete after Wait.
func (m *Metered) Usage() Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.usage
}

// start counts a call whose operands are c, and starts its clock.
func (m *Metered) start(op Op, c Count) time.Time {
	c.Calls = 1
	m.mu.Lock()
	m.usage[op].add(c)
	m.mu.Unlock()
	if m.measure != nil {
		m.endSpan = m.measure(m.report[op])
		return time.Time{}
	}
	return time.Now()
}

// finish stops the clock of the call that started at began.
func (m *Metered) finish(op Op, began time.Time) {
	if m.measure != nil {
		m.endSpan()
		return
	}
	m.addTime(op, time.Since(began))
}

func (m *Metered) addTime(op Op, d time.Duration) {
	m.mu.Lock()
	m.usage[op].Time += d
	m.mu.Unlock()
}

// Upload is counted as a transfer.
func (m *Metered) Upload(dst Tensor, src []float32) {
	t := m.start(OpTransfer, moving(dst))
	m.Backend.Upload(dst, src)
	m.finish(OpTransfer, t)
}

// Download is counted as a transfer.
func (m *Metered) Download(dst []float32, src Tensor) error {
	t := m.start(OpTransfer, moving(src))
	err := m.Backend.Download(dst, src)
	m.finish(OpTransfer, t)
	return err
}

// Copy is counted as a copy.
func (m *Metered) Copy(dst, src Tensor) {
	c := moving(dst, src)
	if !dst.Contiguous() || !src.Contiguous() {
		c = c.byRow(dst)
	}
	t := m.start(OpCopy, c)
	m.Backend.Copy(dst, src)
	m.finish(OpCopy, t)
}

// Gather is counted as a copy.
func (m *Metered) Gather(dst, table Tensor, ids []int32) {
	t := m.start(OpCopy, moving(dst, dst))
	m.Backend.Gather(dst, table, ids)
	m.finish(OpCopy, t)
}

// Linear counts x (..., K) times w (N, K).
func (m *Metered) Linear(dst, x, w Tensor, ep Epilogue) {
	flop := 2 * float64(dst.Len()) * float64(dimFromEnd(x, 1))
	t := m.start(OpLinear, moving(dst, x, w, ep.Gate, ep.Residual, ep.Onto).product(flop, productType(x, w, ep.Int8)))
	m.Backend.Linear(dst, x, w, ep)
	m.finish(OpLinear, t)
}

// Attention counts q k^T and its product with v, over the valid keys.
func (m *Metered) Attention(dst, q, k, v Tensor, spec AttentionSpec) {
	keys := float64(dimFromEnd(k, 3))
	if len(spec.KeyLens) > 0 {
		keys = 0
		for _, n := range spec.KeyLens {
			keys += float64(n) / float64(len(spec.KeyLens))
		}
	}
	t := m.start(OpAttention, moving(dst, q, k, v, spec.Bias).product(4*float64(q.Len())*keys, productType(q, k, spec.Int8)))
	m.Backend.Attention(dst, q, k, v, spec)
	m.finish(OpAttention, t)
}

// Norm counts bytes.
func (m *Metered) Norm(dst, x Tensor, spec NormSpec) {
	t := m.start(OpNorm, moving(dst, x, spec.Scale, spec.Shift, spec.Cos, spec.Sin).byRow(x))
	m.Backend.Norm(dst, x, spec)
	m.finish(OpNorm, t)
}

// Rope counts bytes.
func (m *Metered) Rope(dst, x, cos, sin Tensor) {
	t := m.start(OpRope, moving(dst, x, cos, sin))
	m.Backend.Rope(dst, x, cos, sin)
	m.finish(OpRope, t)
}

// Unary is counted as elementwise.
func (m *Metered) Unary(dst, x Tensor, op UnaryOp) {
	t := m.start(OpElementwise, moving(dst, x))
	m.Backend.Unary(dst, x, op)
	m.finish(OpElementwise, t)
}

// Binary is counted as elementwise.
func (m *Metered) Binary(dst, a, b Tensor, op BinaryOp) {
	t := m.start(OpElementwise, moving(dst, a, b))
	m.Backend.Binary(dst, a, b, op)
	m.finish(OpElementwise, t)
}

// Conv counts dst (..., Cout) times the taps and channels of w (Cout, Cin, taps...).
func (m *Metered) Conv(dst, x, w Tensor, spec ConvSpec) {
	flop := 2 * float64(dst.Len()) * float64(w.Len()/max(1, dimFromEnd(w, len(w.Shape))))
	t := m.start(OpConv, moving(dst, x, w, spec.Residual).product(flop, productType(x, w, false)))
	m.Backend.Conv(dst, x, w, spec)
	m.finish(OpConv, t)
}
