package cpu

import "latentbeam/kernels"

// groupBlock is the number of pixels that are summed together before blocks are added in index order. It is part of the order
// of additions: work divided at its multiples gives the same bits.
const groupBlock = 64

// moments holds the sum of a group's values and the sum of their squares.
type moments struct{ sum, squares float64 }

// groupNorm computes the moments of each channel in fixed blocks of pixels, adds channels and then blocks in index order, and
// normalises pixel by pixel. Squares are summed in float64: even if mean^2 is a million times the variance, fp32 results do not
// change.
func (b *Backend) groupNorm(n *norm) {
	images, groups, c := n.x.Shape[0], n.spec.Groups, n.x.n
	n.pixels = n.x.Shape[1] * n.x.Shape[2]
	n.blocks = (n.pixels + groupBlock - 1) / groupBlock
	call := b.callScratch()
	n.partial = growList(&call.moments, images*n.blocks*groups)
	b.each("norm", images*n.blocks, b.tasks.moments)
	n.means, n.factors = call.vector(2, images*c), call.vector(3, images*c)
	if n.bias == nil {
		n.bias = call.vector(1, c)
		clear(n.bias)
	}
	for i := range images {
		n.combine(n.partial[i*n.blocks*groups:(i+1)*n.blocks*groups], float64(n.pixels*c/groups),
			n.means[i*c:(i+1)*c], n.factors[i*c:(i+1)*c])
	}
	b.eachSpan("norm", images*n.pixels, c, b.tasks.groupNorm)
}

// runMoments is the task of the first pass: block t of the pixels.
func (b *Backend) runMoments(w *worker, t int) {
	n := &b.norm
	groups, first := n.spec.Groups, t%n.blocks*groupBlock
	n.blockMoments(w, n.partial[t*groups:(t+1)*groups], t/n.blocks*n.pixels+first, min(groupBlock, n.pixels-first))
}

// runGroupNorm is the task of the second pass.
func (b *Backend) runGroupNorm(w *worker, from, to int) {
	n := &b.norm
	c := n.x.n
	x, dst, m := n.x.cursor(from), n.dst.cursor(from), n.modulation(w, from)
	for i := from; i < to; i++ {
		at := i / n.pixels * c
		out := dst.target(w.floats(0, c))
		n.math.center(out, x.read(w.floats(0, c)), n.means[at:at+c], n.factors[at:at+c], n.bias)
		if n.dst.DType != kernels.F32 {
			n.roundResult(w, &m, out)
		} else if n.scale.view != nil {
			scale, shift := m.rows()
			n.math.modulate(out, out, scale, shift, 0, 1)
		}
		n.math.activate(out, n.spec.Act)
		dst.store(out)
		x.next()
		dst.next()
		m.next()
	}
}

// blockMoments sums the groups of count pixels from row first on.
func (n *norm) blockMoments(w *worker, out []moments, first, count int) {
	c := n.x.n
	data, stride := n.x.block(w, first, count)
	both := growList(&w.rows.doubles, 2*c)
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

// block returns count rows from row first on as fp32, and the distance from one row to the next in elements. It returns r's own
// memory if the rows are dense fp32 at equal distances, else a copy.
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

// combine adds the blocks of one image in index order and writes the mean and weight / sqrt(var + eps) of each group to its
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
