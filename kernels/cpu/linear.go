package cpu

import (
	"slices"
	"unsafe"

	"latentbeam/kernels"
)

const (
	// streamRows is the greatest number of rows that use a panel packed on the fly.
	streamRows = 1056
	// packAhead is the size up to which the right operand is packed as a whole before the product.
	packAhead = 1 << 20
	// maxGroupsPerTask is the greatest number of groups of columns that are computed together, so that a part of A is read from
	// distant memory only once for them.
	maxGroupsPerTask = 4
	// soloWork is the number of multiplications below which waking a helper takes longer than the time it saves.
	soloWork = 1 << 17
)

// Linear computes dst = ep(x w^T).
func (b *Backend) Linear(dst, x, w kernels.Tensor, ep kernels.Epilogue) {
	const op = "linear"
	v, ok := b.resolve(op, dst, x, w, ep.Bias, ep.Residual, ep.Gate, ep.Onto)
	if !ok || !b.checkPresent(op, []string{"dst", "x", "w"}, v) {
		return
	}
	last := len(x.Shape) - 1
	if last < 0 || len(w.Shape) != 2 || w.Shape[1] != x.Shape[last] || len(dst.Shape) != last+1 ||
		dst.Shape[last] != w.Shape[0] || !slices.Equal(dst.Shape[:last], x.Shape[:last]) {
		b.fail("linear: x %v, w %v and dst %v are not (..., K), (N, K) and (..., N)", x.Shape, w.Shape, dst.Shape)
		return
	}
	if !b.checkParts(op, ep.Parts, x.Shape[last], v[0], v[6]) {
		return
	}
	if e, ok := b.newEpilogue(op, v[0], v[3], v[4], v[5], ep.Act); ok {
		if v[6] != nil {
			e.onto = newRows(v[6])
		}
		if ep.Int8 && x.Shape[last] > 0 {
			m := b.arena.mark()
			defer b.arena.reset(m)
			b.linearInt8(op, v[1], v[2], ep.Parts, e)
			return
		}
		b.linear(op, v[1], v[2], ep.Parts, e)
	}
}

// checkParts checks the borders of the parts of a sum over k terms, and the operand onto.
func (b *Backend) checkParts(op string, parts []int, k int, dst, onto *view) bool {
	before := 0
	for _, at := range parts {
		if at <= before || at >= k || at%2 != 0 {
			b.fail("%s: parts start at %v in a sum of %d terms: the starts must be even, ascending and inside the sum", op, parts, k)
			return false
		}
		before = at
	}
	if onto != nil && (onto.DType != kernels.F32 || !slices.Equal(onto.Shape, dst.Shape)) {
		b.fail("%s: onto %v %v for dst %v", op, onto.DType, onto.Shape, dst.Shape)
		return false
	}
	return true
}

// linear computes the product of the rows of x and of w (N, K); the given borders divide its sums into parts.
func (b *Backend) linear(op string, x, w *view, parts []int, e epilogue) {
	m := b.arena.mark()
	defer b.arena.reset(m)
	g := &b.gemm
	g.reset(b.tier, b.tier.dotFor(x.DType, w.DType), e.dst.n)
	g.e, g.a = e, newRows(x)
	if g.a.count == 0 || g.n == 0 {
		return
	}
	g.addParts(g.a.n, parts)
	if b.prepareLeft(op) && b.prepareRight(op, g, w) {
		b.compute(op)
	}
}

// prepareRight sets B of g to the rows of w: already packed, or to be packed on the fly.
func (b *Backend) prepareRight(op string, g *gemm, w *view) bool {
	if g.depth == 0 {
		return true
	}
	if w.Strides[1] != 1 && w.Shape[1] > 1 {
		dense, err := b.denseWeight(op, w)
		if err != nil {
			b.fail("%s: %w", op, err)
			return false
		}
		w = dense
	}
	g.w = packing{src: w.pointer(w.Offset), stride: w.Strides[0] * w.DType.Size(), dtype: w.DType}
	size := g.packedSize()
	if p := b.packedWeight(op, g, w, size); p != nil {
		g.packed = p
		return true
	}
	if size > packAhead {
		if w.buf.weight != nil {
			b.recordUse(w.buf)
		}
		return true
	}
	p, _, err := b.arena.acquire(size)
	if err != nil {
		b.fail("%s: %w", op, err)
		return false
	}
	b.packAll(op, g, p)
	return b.err == nil
}

// denseWeight copies w (N, K) so that its rows are dense.
func (b *Backend) denseWeight(op string, w *view) (*view, error) {
	p, _, err := b.arena.acquire(w.Len() * w.DType.Size())
	if err != nil {
		return nil, err
	}
	n, k := w.Shape[0], w.Shape[1]
	buf := &buffer{}
	buf.set(w.DType, p, n*k)
	dense := &view{kernels.NewTensor(w.DType, buf, n, k), buf}
	b.eachSpan(op, n, k, func(_ *worker, from, to int) {
		for i := from; i < to; i++ {
			off := w.Offset + i*w.Strides[0]
			for q := range k {
				if w.DType == kernels.F32 {
					buf.f32[i*k+q] = w.buf.f32[off]
				} else {
					buf.u16[i*k+q] = w.buf.u16[off]
				}
				off += w.Strides[1]
			}
		}
	})
	return dense, nil
}

// packedSize returns the bytes of B, packed.
func (g *gemm) packedSize() int {
	first, cols := g.group(g.groups() - 1)
	return (first + g.tier.padded(cols)) * g.depth * 4
}

// packAll packs all of B to p.
func (b *Backend) packAll(op string, g *gemm, p unsafe.Pointer) {
	g.packed = p
	b.each(op, g.groups(), func(_ *worker, i int) { g.packGroup(i) })
}

// compute runs the product. If B is packed, blocks of rows are small enough to keep all workers busy; a panel packed on the fly
// is used for as many rows as possible.
func (b *Backend) compute(op string) {
	const block = 12 // the row counts of the micro-kernels divide it
	g, m := &b.gemm, b.gemm.a.count
	across, workers := g.groups(), len(b.crew.workers)
	tasks := 4 * workers
	if g.packed == nil {
		tasks = workers
	}
	down := min(max(1, (tasks+across-1)/across), (m+block-1)/block)
	down = max(down, (m+streamRows-1)/streamRows)
	g.rowsPerTask = ((m+down-1)/down + block - 1) / block * block
	down = (m + g.rowsPerTask - 1) / g.rowsPerTask
	g.groupsPerTask = 1
	if g.tier.kernels[g.dot].tiles != nil { // tiles are so fast that rows of A must be in a near cache
		g.groupsPerTask = max(1, min(maxGroupsPerTask, down*across/(2*workers)))
	}
	if m*g.n*g.depth < soloWork {
		workers = 1
	}
	b.eachOf(workers, op, down*((across+g.groupsPerTask-1)/g.groupsPerTask), b.tileTask)
}

// runTile computes a block of rows and some groups of columns: task i. The groups of one block are consecutive tasks.
func (b *Backend) runTile(w *worker, i int) {
	g := &b.gemm
	part, groups := g.strip, g.groups()
	across := (groups + g.groupsPerTask - 1) / g.groupsPerTask
	part.skip = i / across * g.rowsPerTask
	first := i % across * g.groupsPerTask
	g.computeTile(w, part, min(g.rowsPerTask, g.a.count-part.skip), part.skip, first, min(first+g.groupsPerTask, groups),
		first+len(b.crew.workers))
}
