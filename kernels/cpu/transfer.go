package cpu

import "latentbeam/kernels"

// Upload copies src, row-major, into dst.
func (b *Backend) Upload(dst kernels.Tensor, src []float32) {
	v, ok := b.resolve("upload", dst)
	if !ok || !b.checkPresent("upload", []string{"dst"}, v) {
		return
	}
	if len(src) != dst.Len() {
		b.fail("upload: %d values for dst %v", len(src), dst.Shape)
		return
	}
	b.pieces.reset(v[0], b.pieces.view(src, dst.Shape))
	b.eachRun("upload", b.tasks.upload)
	b.pieces.host = nil
}

// runUpload is the task of Upload. The host's steps are 1; only a run of one element may have step 0.
func (b *Backend) runUpload(_ *worker, offs [maxOperands]int, length int) {
	b.pieces.views[0].store(b.pieces.host[offs[1]:offs[1]+length], offs[0], b.pieces.steps[0])
}

// Download copies src, row-major, into dst and returns the first error since the backend was made.
func (b *Backend) Download(dst []float32, src kernels.Tensor) error {
	v, ok := b.resolve("download", src)
	if !ok || !b.checkPresent("download", []string{"source"}, v) {
		return b.err
	}
	if len(dst) != src.Len() {
		b.fail("download: source %v into %d values", src.Shape, len(dst))
		return b.err
	}
	b.pieces.reset(v[0], b.pieces.view(dst, src.Shape))
	b.eachRun("download", b.tasks.download)
	b.pieces.host = nil
	return b.err
}

// runDownload is the task of Download.
func (b *Backend) runDownload(_ *worker, offs [maxOperands]int, length int) {
	b.pieces.views[0].load(b.pieces.host[offs[1]:offs[1]+length], offs[0], b.pieces.steps[0])
}

// view returns a view of the caller's row-major slice.
func (p *pieces) view(data []float32, shape []int) *view {
	n := 1
	for i := len(shape) - 1; i >= 0; i-- {
		p.hostStrides[i] = n
		n *= shape[i]
	}
	p.host = data
	p.hostView = view{Tensor: kernels.Tensor{Shape: shape, Strides: p.hostStrides[:len(shape)]}}
	return &p.hostView
}

// Gather copies row ids[i] of table to row i of dst.
func (b *Backend) Gather(dst, table kernels.Tensor, ids []int32) {
	const op = "gather"
	v, ok := b.resolve(op, dst, table)
	if !ok || !b.checkPresent(op, []string{"dst", "table"}, v) {
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
