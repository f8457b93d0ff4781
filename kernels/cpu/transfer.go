package cpu

import "latentbeam/kernels"

// Upload copies src, row-major, into dst.
func (b *Backend) Upload(dst kernels.Tensor, src []float32) {
	v, ok := b.open("upload", dst)
	if !ok || !b.need("upload", []string{"dst"}, v) {
		return
	}
	if len(src) != dst.Len() {
		b.fail("upload: %d values for dst %v", len(src), dst.Shape)
		return
	}
	n := newNest(v[0], hostView(src, dst.Shape))
	b.eachRun("upload", n, func(_ *worker, offs [maxOperands]int, length int) {
		v[0].store(src[offs[1]:offs[1]+length], offs[0], n.steps[0])
	})
}

// Download copies src, row-major, into dst and returns the first error since the backend was made.
func (b *Backend) Download(dst []float32, src kernels.Tensor) error {
	v, ok := b.open("download", src)
	if !ok || !b.need("download", []string{"source"}, v) {
		return b.err
	}
	if len(dst) != src.Len() {
		b.fail("download: source %v into %d values", src.Shape, len(dst))
		return b.err
	}
	n := newNest(v[0], hostView(dst, src.Shape))
	b.eachRun("download", n, func(_ *worker, offs [maxOperands]int, length int) {
		v[0].load(dst[offs[1]:offs[1]+length], offs[0], n.steps[0])
	})
	return b.err
}

// hostView is the caller's row-major slice as a view. Its steps are 1, except that a run of one element
// may have step 0.
func hostView(data []float32, shape []int) *view {
	buf := &buffer{f32: data}
	return &view{kernels.NewTensor(kernels.F32, buf, shape...), buf}
}

// Gather copies row ids[i] of table to row i of dst.
func (b *Backend) Gather(dst, table kernels.Tensor, ids []int32) {
	const op = "gather"
	v, ok := b.open(op, dst, table)
	if !ok || !b.need(op, []string{"dst", "table"}, v) {
		return
	}
	if len(table.Shape) != 2 || len(dst.Shape) != 2 ||
		dst.Shape[0] != len(ids) || dst.Shape[1] != table.Shape[1] {
		b.fail("gather: table %v and dst %v are not (V, C) and (%d, C)", table.Shape, dst.Shape, len(ids))
		return
	}
	for i, id := range ids {
		if id < 0 || int(id) >= table.Shape[0] {
			b.fail("gather: id %d at %d is outside a table of %d rows", id, i, table.Shape[0])
			return
		}
	}
	d, t := newRows(v[0]), newRows(v[1])
	b.eachSpan(op, len(ids), d.n, func(w *worker, from, to int) {
		scratch := w.floats(0, d.n)
		for i := from; i < to; i++ {
			d.store(t.read(scratch, t.offset(int(ids[i])), t.step, t.n), d.offset(i), d.step)
		}
	})
}
