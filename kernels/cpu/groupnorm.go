package cpu

import "latentbeam/kernels"

// groupBlock is the number of pixels whose sums are taken together before blocks are added in index
// order. It is part of the order of additions: work that is cut at its multiples gives the same bits.
const groupBlock = 64

// moments are the sums of a group's values and of their squares.
type moments struct{ sum, squares float64 }

// groupNorm takes the moments of each channel in fixed blocks of pixels, adds channels, then blocks, in
// index order and normalises pixel by pixel. Squares are summed in float64, where mean^2 may exceed the
// variance a million times before fp32 results notice.
func (b *Backend) groupNorm(n *norm) {
	images, groups, c := n.x.Shape[0], n.spec.Groups, n.x.n
	pixels := n.x.Shape[1] * n.x.Shape[2]
	blocks := (pixels + groupBlock - 1) / groupBlock
	call := b.call()
	partial := grow(&call.moments, images*blocks*groups)
	b.each("norm", images*blocks, func(w *worker, t int) {
		first := t % blocks * groupBlock
		n.blockMoments(w, partial[t*groups:(t+1)*groups], t/blocks*pixels+first, min(groupBlock, pixels-first))
	})
	means, factors := call.vector(2, images*c), call.vector(3, images*c)
	bias := n.bias
	if bias == nil {
		bias = call.vector(4, c)
		clear(bias)
	}
	for i := range images {
		n.combine(partial[i*blocks*groups:(i+1)*blocks*groups], float64(pixels*c/groups),
			means[i*c:(i+1)*c], factors[i*c:(i+1)*c])
	}
	b.eachSpan("norm", images*pixels, c, func(w *worker, from, to int) {
		x, dst, m := n.x.cursor(from), n.dst.cursor(from), n.modulation(w, from)
		for i := from; i < to; i++ {
			at := i / pixels * c
			out := dst.target(w.floats(0, c))
			n.math.center(out, x.read(w.floats(0, c)), means[at:at+c], factors[at:at+c], bias)
			if n.scale != nil {
				scale, shift := m.rows()
				n.math.modulate(out, out, scale, shift, 0, 1)
			}
			n.math.activate(out, n.spec.Act)
			dst.store(out)
			x.next()
			dst.next()
			m.next()
		}
	})
}

// blockMoments sums the groups of count pixels from row first on.
func (n *norm) blockMoments(w *worker, out []moments, first, count int) {
	c := n.x.n
	data, stride := n.x.block(w, first, count)
	both := grow(&w.rows.doubles, 2*c)
	sums, squares := both[:c], both[c:]
	n.math.columnMoments(sums, squares, data, count, stride)
	for g := range out {
		var m moments
		for j := g * c / len(out); j < (g+1)*c/len(out); j++ {
			m.sum += sums[j]
			m.squares += squares[j]
		}
		out[g] = m
	}
}

// block returns count rows from row first on as fp32, and the elements from one to the next: their own
// memory where they lie in it evenly, else a copy.
func (r *rows) block(w *worker, first, count int) (data []float32, stride int) {
	if r.DType == kernels.F32 && r.step == 1 && first/r.run == (first+count-1)/r.run && r.jump >= 0 {
		off := r.offset(first)
		return r.buf.f32[off : off+(count-1)*r.jump+r.n], r.jump
	}
	data = w.floats(0, count*r.n)
	for i := range count {
		r.load(data[i*r.n:(i+1)*r.n], r.offset(first+i), r.step)
	}
	return data, r.n
}

// combine adds one image's blocks in index order and spreads mean and weight / sqrt(var + eps) over the
// channels.
func (n *norm) combine(partial []moments, count float64, means, factors []float32) {
	groups := n.spec.Groups
	for g := range groups {
		var m moments
		for i := g; i < len(partial); i += groups {
			m.sum += partial[i].sum
			m.squares += partial[i].squares
		}
		mean := m.sum / count
		factor := inverseRoot(max(0, m.squares/count-float64(mean*mean)), n.spec.Eps)
		for j := g * len(means) / groups; j < (g+1)*len(means)/groups; j++ {
			means[j], factors[j] = float32(mean), factor
			if n.weight != nil {
				factors[j] = float32(factor * n.weight[j])
			}
		}
	}
}
