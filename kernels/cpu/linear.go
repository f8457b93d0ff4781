package cpu

import (
	"slices"

	"latentbeam/kernels"
)

// epilogue is what happens to a row of a product before it is stored; Linear and Conv share it.
type epilogue struct {
	dst      rows
	bias     []float32
	act      kernels.UnaryOp
	residual *rows
	gate     *rows
}

// store finishes sum, the columns from j0 of row i, and writes it.
func (e *epilogue) store(w *worker, sum []float32, i, j0 int) {
	if e.bias != nil {
		for j, x := range e.bias[j0 : j0+len(sum)] {
			sum[j] += x
		}
	}
	activate(sum, e.act)
	if e.residual != nil {
		if e.gate != nil {
			g := e.gate.read(w.panels.row, e.gate.offset(i)+j0*e.gate.step, e.gate.step, len(sum))
			for j, x := range g {
				sum[j] = float32(sum[j] * x)
			}
		}
		r := e.residual.read(w.panels.row, e.residual.offset(i)+j0*e.residual.step, e.residual.step, len(sum))
		for j, x := range r {
			sum[j] += x
		}
	}
	e.dst.store(sum, e.dst.offset(i)+j0*e.dst.step, e.dst.step)
}

// multiply computes p and stores it through e.
func (b *Backend) multiply(op string, p *product, e *epilogue) {
	down, across := p.tiles()
	b.each(op, down*across, func(w *worker, t int) {
		i0, j0 := t/across*blockM, t%across*blockN
		m, n := p.tile(w, i0, j0)
		for i := range m {
			e.store(w, w.panels.sum[i*blockN:][:n], i0+i, j0)
		}
	})
}

// Linear computes dst = ep(x w^T).
func (b *Backend) Linear(dst, x, w kernels.Tensor, ep kernels.Epilogue) {
	const op = "linear"
	v, ok := b.open(op, dst, x, w, ep.Bias, ep.Residual, ep.Gate)
	if !ok || !b.need(op, []string{"dst", "x", "w"}, v) {
		return
	}
	last := len(x.Shape) - 1
	if last < 0 || len(w.Shape) != 2 || w.Shape[1] != x.Shape[last] || len(dst.Shape) != last+1 ||
		dst.Shape[last] != w.Shape[0] || !slices.Equal(dst.Shape[:last], x.Shape[:last]) {
		b.fail("linear: x %v, w %v and dst %v are not (..., K), (N, K) and (..., N)", x.Shape, w.Shape, dst.Shape)
		return
	}
	e, ok := b.newEpilogue(op, v[0], v[3], v[4], v[5], ep.Act)
	if !ok {
		return
	}
	a, wr := newRows(v[1]), newRows(v[2])
	b.multiply(op, &product{a: &a, b: &wr, m: a.count, n: wr.count, k: a.n}, e)
}

// newEpilogue checks the operands of an epilogue that writes dst.
func (b *Backend) newEpilogue(
	op string, dst, bias, residual, gate *view, act kernels.UnaryOp,
) (*epilogue, bool) {
	e := &epilogue{dst: newRows(dst), act: act}
	switch {
	case bias != nil && (len(bias.Shape) != 1 || bias.Shape[0] != e.dst.n):
		b.fail("%s: bias %v for dst %v", op, bias.Shape, dst.Shape)
	case residual != nil && !slices.Equal(residual.Shape, dst.Shape):
		b.fail("%s: residual %v for dst %v", op, residual.Shape, dst.Shape)
	case gate != nil && residual == nil:
		b.fail("%s: a gate without a residual", op)
	case gate != nil && !slices.Equal(gate.Shape, dst.Shape):
		b.fail("%s: gate %v for dst %v", op, gate.Shape, dst.Shape)
	case act > kernels.GELUTanh:
		b.fail("%s: unary operation %d is not supported", op, act)
	}
	if b.err != nil {
		return nil, false
	}
	if bias != nil {
		e.bias = bias.read(make([]float32, e.dst.n), bias.Offset, bias.Strides[0], e.dst.n)
	}
	if residual != nil {
		r := newRows(residual)
		e.residual = &r
	}
	if gate != nil {
		g := newRows(gate)
		e.gate = &g
	}
	return e, true
}
