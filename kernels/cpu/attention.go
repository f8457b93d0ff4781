package cpu

import (
	"math"
	"slices"

	"latentbeam/kernels"
)

// attention is one call, its leading axes resolved.
type attention struct {
	dst, q, k, v *view
	bias         *view
	spec         kernels.AttentionSpec
	lead         []int // one or two leading axes
	lq, lk, h, d int
}

// Attention computes softmax(scale q k^T + bias) v for each leading entry, head and block of queries: all
// scores of a block, their exact softmax, then the weighted values. Where there is no valid key the
// result is zero.
func (b *Backend) Attention(dst, q, k, v kernels.Tensor, spec kernels.AttentionSpec) {
	const op = "attention"
	views, ok := b.open(op, dst, q, k, v, spec.Bias)
	if !ok || !b.need(op, []string{"dst", "q", "k", "v"}, views) {
		return
	}
	a := &attention{dst: views[0], q: views[1], k: views[2], v: views[3], bias: views[4], spec: spec}
	if !b.checkAttention(a) {
		return
	}
	blocks := (a.lq + blockM - 1) / blockM
	tasks := blocks * a.h
	for _, n := range a.lead {
		tasks *= n
	}
	b.each(op, tasks, func(w *worker, t int) {
		a.block(w, t/blocks/a.h, t/blocks%a.h, t%blocks*blockM)
	})
}

// checkAttention checks shapes and lengths and fills the sizes of a.
func (b *Backend) checkAttention(a *attention) bool {
	qs, ks := a.q.Shape, a.k.Shape
	n := len(qs) - 3
	if n != 1 && n != 2 || len(ks) != n+3 ||
		!slices.Equal(qs[:n], ks[:n]) || !slices.Equal(qs[n+1:], ks[n+1:]) ||
		!slices.Equal(a.v.Shape, ks) || !slices.Equal(a.dst.Shape, qs) {
		b.fail("attention: q %v, k %v, v %v and dst %v are not (..., Lq, H, D), (..., Lk, H, D) twice and "+
			"(..., Lq, H, D) with one or two leading axes", qs, ks, a.v.Shape, a.dst.Shape)
		return false
	}
	a.lead, a.lq, a.lk, a.h, a.d = qs[:n], qs[n], ks[n], qs[n+1], qs[n+2]
	if lens := a.spec.KeyLens; lens != nil && len(lens) != a.lead[0] {
		b.fail("attention: %d key lengths for q %v", len(lens), qs)
		return false
	}
	for i, l := range a.spec.KeyLens {
		if l < 0 || l > a.lk {
			b.fail("attention: key length %d at %d for k %v", l, i, ks)
			return false
		}
	}
	if a.bias != nil && !slices.Equal(a.bias.Shape, []int{a.h, a.lq, a.lk}) {
		b.fail("attention: bias %v for q %v and k %v is not (H, Lq, Lk)", a.bias.Shape, qs, ks)
		return false
	}
	return true
}

// head returns one leading entry and head of v as rows of the sequence axis.
func (a *attention) head(v *view, entry, head int) rows {
	n := len(a.lead)
	start := v.Offset + head*v.Strides[n+1]
	for ax := n - 1; ax >= 0; ax-- {
		start += entry % a.lead[ax] * v.Strides[ax]
		entry /= a.lead[ax]
	}
	return rows{
		view: v, start: start, count: v.Shape[n], n: a.d, step: v.Strides[n+2],
		jump: v.Strides[n], run: v.Shape[n],
	}
}

// flip swaps rows and terms: row j holds element j of every row before.
func (r rows) flip() rows {
	r.count, r.n, r.step, r.jump, r.run = r.n, r.count, r.jump, r.step, r.n
	return r
}

// operands are a worker's views of one head, and the probabilities between its two products.
type operands struct {
	q, k, v rows
	p       dense
}

// dense is a source in scratch memory.
type dense struct {
	data  []float32
	width int
}

func (d *dense) terms(_ []float32, row, k0, n int) []float32 {
	return d.data[row*d.width+k0:][:n]
}

// block computes up to blockM queries from q0 of one entry and head.
func (a *attention) block(w *worker, entry, head, q0 int) {
	keys := a.lk
	if a.spec.KeyLens != nil {
		inner := 1
		for _, n := range a.lead[1:] {
			inner *= n
		}
		keys = a.spec.KeyLens[entry/inner]
	}
	m := min(blockM, a.lq-q0)
	s := &w.attention
	s.q, s.k, s.v = a.head(a.q, entry, head), a.head(a.k, entry, head), a.head(a.v, entry, head).flip()
	s.q.start += q0 * s.q.jump
	s.p = dense{w.floats(0, m*keys), keys}
	p := product{a: &s.q, b: &s.k, m: m, n: keys, k: a.d}
	for j0 := 0; j0 < keys; j0 += blockN {
		_, n := p.tile(w, 0, j0)
		for i := range m {
			copy(s.p.data[i*keys+j0:][:n], w.panels.sum[i*blockN:])
		}
	}
	inverse := w.floats(1, m)
	for i := range m {
		row := s.p.data[i*keys:][:keys]
		inverse[i] = softmax(row, a.spec.Scale, a.biasRow(w, head, q0+i, keys))
	}
	dst := a.head(a.dst, entry, head)
	p = product{a: &s.p, b: &s.v, m: m, n: a.d, k: keys}
	for j0 := 0; j0 < a.d; j0 += blockN {
		_, n := p.tile(w, 0, j0)
		for i := range m {
			row := w.panels.sum[i*blockN:][:n]
			for j, x := range row {
				row[j] = float32(x * inverse[i])
			}
			dst.store(row, dst.offset(q0+i)+j0*dst.step, dst.step)
		}
	}
}

// biasRow returns the bias of one query, or nil.
func (a *attention) biasRow(w *worker, head, query, keys int) []float32 {
	if a.bias == nil {
		return nil
	}
	s := a.bias.Strides
	return a.bias.read(w.floats(2, keys), a.bias.Offset+head*s[0]+query*s[1], s[2], keys)
}

// softmax replaces scores s by exp(scale s + bias - max) and returns the factor that makes their sum 1,
// 0 where there is no score.
func softmax(row []float32, scale float32, bias []float32) float32 {
	if len(row) == 0 {
		return 0
	}
	top := float32(math.Inf(-1))
	for i, s := range row {
		s = float32(s * scale)
		if bias != nil {
			s += bias[i]
		}
		row[i] = s
		top = max(top, s)
	}
	sum := 0.0
	for i, s := range row {
		e := exp(s - top)
		row[i] = e
		sum += float64(e)
	}
	return float32(1 / sum)
}
