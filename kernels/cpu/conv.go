package cpu

import (
	"slices"
	"unsafe"

	"latentbeam/kernels"
)

// Conv computes a convolution as one product without storing the unfolded input matrix. A task copies the band of input that
// its output rows depend on, padded and upsampled; the taps of the kernel are blocks at fixed distances in the band. An image
// is a video of one frame.
func (b *Backend) Conv(dst, x, w kernels.Tensor, spec kernels.ConvSpec) {
	const op = "conv"
	v, ok := b.resolve(op, dst, x, w, spec.Bias, spec.Residual)
	if !ok || !b.checkPresent(op, []string{"dst", "x", "w"}, v) {
		return
	}
	if !b.newConv(v[0], v[1], v[2], spec) {
		return
	}
	e, ok := b.newEpilogue(op, v[0], v[3], v[4], nil, kernels.Identity)
	if !ok || e.dst.count == 0 || e.dst.n == 0 {
		return
	}
	m := b.arena.mark()
	defer b.arena.reset(m)
	c, g := &b.conv, &b.gemm
	if c.pointwise() {
		b.linear(op, &c.x, c.matrix(), nil, e)
		return
	}
	g.reset(b.tier, b.tier.dotFor(x.DType, w.DType), e.dst.n)
	g.e = e
	c.plan(g)
	if b.convWeight(op, g, c) {
		b.each(op, c.x.Shape[0]*c.outT*c.bands(), b.bandTask)
	}
}

// conv is one convolution, always with a time axis.
type conv struct {
	x, w                 view // (N, T, H, W, Cin), (Cout, Cin, KT, KH, KW)
	depth, height, width int  // of the input after upsampling
	outT, outH, outW     int
	kt, kh, kw, cin      int
	strideT, stride, up  int
	front, top, left     int
	zeros                int // number of first kernel frames that read only the zeros in front of the video
	padding              int // on all sides together
	dot                  dot
	pixel, line, frame   int // bytes from pixel to pixel, row to row, frame to frame of a band
	lines                int // output rows of a band
	shapes               [4][5]int
}

// set makes t the video view of v. If v is an image, the time axis is inserted at axis.
func (c *conv) set(t *view, v *view, shape, strides *[5]int, axis int) {
	*t = *v
	if len(v.Shape) == 5 {
		return
	}
	copy(shape[:axis], v.Shape)
	copy(strides[:axis], v.Strides)
	shape[axis], strides[axis] = 1, 0
	copy(shape[axis+1:], v.Shape[axis:])
	copy(strides[axis+1:], v.Strides[axis:])
	t.Shape, t.Strides = shape[:], strides[:]
}

// newConv checks the shapes of a convolution and fills b.conv.
func (b *Backend) newConv(dst, x, w *view, spec kernels.ConvSpec) bool {
	rank := len(x.Shape)
	if rank != 4 && rank != 5 || len(w.Shape) != rank || len(dst.Shape) != rank {
		b.fail("conv: x %v, w %v and dst %v are not (N, [T,] H, W, Cin), (Cout, Cin, [KT,] KH, KW) and "+
			"(N, [T',] H', W', Cout)", x.Shape, w.Shape, dst.Shape)
		return false
	}
	c := &b.conv
	*c = conv{
		strideT: max(spec.StrideT, 1), stride: max(spec.Stride, 1), up: max(spec.Upsample, 1),
		front: spec.Front, top: spec.Top, left: spec.Left,
		padding: spec.Front + spec.Back + spec.Top + spec.Bottom + spec.Left + spec.Right,
		dot:     b.tier.dotFor(x.DType, w.DType),
	}
	c.set(&c.x, x, &c.shapes[0], &c.shapes[1], 1)
	c.set(&c.w, w, &c.shapes[2], &c.shapes[3], 2)
	c.cin, c.kt, c.kh, c.kw = c.x.Shape[4], c.w.Shape[2], c.w.Shape[3], c.w.Shape[4]
	c.depth, c.height, c.width = c.x.Shape[1], c.x.Shape[2]*c.up, c.x.Shape[3]*c.up
	roomT := c.depth + spec.Front + spec.Back - c.kt
	roomH := c.height + spec.Top + spec.Bottom - c.kh
	roomW := c.width + spec.Left + spec.Right - c.kw
	if min(spec.Front, spec.Back, spec.Top, spec.Left, spec.Bottom, spec.Right) < 0 ||
		min(spec.StrideT, spec.Stride, spec.Upsample, roomT, roomH, roomW) < 0 || min(c.kt, c.kh, c.kw) < 1 {
		b.fail("conv: kernel %v does not fit x %v with strides %d and %d, upsample %d, padding %d %d %d %d, "+
			"in time %d %d", w.Shape, x.Shape, c.strideT, c.stride, c.up, spec.Top, spec.Left, spec.Bottom, spec.Right,
			spec.Front, spec.Back)
		return false
	}
	c.outT, c.outH, c.outW = roomT/c.strideT+1, roomH/c.stride+1, roomW/c.stride+1
	want := [5]int{x.Shape[0], c.outT, c.outH, c.outW, w.Shape[0]}
	last := want[5-rank+1:] // of an image: without time, which is 1
	if dst.Shape[0] != want[0] || !slices.Equal(dst.Shape[1:], last) || c.w.Shape[1] != c.cin ||
		rank == 4 && c.outT != 1 {
		b.fail("conv: x %v and w %v give %d times %v, dst is %v", x.Shape, w.Shape, want[0], slices.Clone(last), dst.Shape)
		return false
	}
	return true
}

// pointwise reports whether every output pixel depends on the input pixel at the same place only.
func (c *conv) pointwise() bool {
	return max(c.kt, c.kh, c.kw, c.strideT, c.stride, c.up) == 1 && c.padding == 0
}

// matrix returns the weight of a pointwise convolution as (Cout, Cin).
func (c *conv) matrix() *view {
	c.w.Shape, c.w.Strides = c.w.Shape[:2], c.w.Strides[:2]
	return &c.w
}

// plan sets the layout of a band and the blocks of g for the taps, in the order (KT, KH, KW, Cin). If pixels are contiguous, a
// row of the kernel is one block.
func (c *conv) plan(g *gemm) {
	c.pixel = g.dot.terms(c.cin) * 4
	dense, far := c.cin%g.dot.multiple() == 0, c.pixel
	if g.dot == dotPairs { // dotPairs has the same blocks as dotBF16
		far = dotBF16.terms(c.cin) * 4
	}
	if far*c.stride%strideTrap == 0 {
		c.pixel, dense = c.pixel+lineSize, false
	}
	c.zeros = c.framesInFront()
	c.line = ((c.outW-1)*c.stride + c.kw) * c.pixel
	c.lines = c.bandLines()
	c.frame = ((c.lines-1)*c.stride + c.kh) * c.line
	idle := 0 // blocks that multiply zeros
	for t := range c.kt {
		for y := range c.kh {
			row, at := (t*c.kh+y)*c.kw*c.cin, t*c.frame+y*c.line
			if dense {
				g.addSpan(row, c.kw*c.cin, at)
				continue
			}
			for x := range c.kw {
				g.addSpan(row+x*c.cin, c.cin, at+x*c.pixel)
			}
		}
		if t == c.zeros-1 {
			idle = len(g.offs)
		}
	}
	g.skippedStages = g.stagesOf(idle)
	if g.skippedStages == 0 || g.stages[g.skippedStages-1].at+g.stages[g.skippedStages-1].blocks != idle {
		c.zeros = 0 // some stage has blocks of both kinds, so it must read the zeros
	}
}

// framesInFront returns how many kernel frames read only the zeros in front of the video, if there is one output frame, as at the
// start of a clip that is computed frame by frame.
func (c *conv) framesInFront() int {
	if c.outT > 1 {
		return 0
	}
	return min(c.front, c.kt-1)
}

// bandLines returns the number of output rows per task: about 400 pixels, so that each panel is used often and sums stay in the
// L2 cache.
func (c *conv) bandLines() int {
	const pixels = 400
	lines := min(c.outH, max(1, pixels/c.outW))
	bands := (c.outH + lines - 1) / lines
	return (c.outH + bands - 1) / bands
}

// bands returns the number of bands per output frame.
func (c *conv) bands() int { return (c.outH + c.lines - 1) / c.lines }

// runBand computes band i % bands of frame i / bands, all columns.
func (b *Backend) runBand(w *worker, i int) {
	c, g := &b.conv, &b.gemm
	frame, y0 := i/c.bands(), i%c.bands()*c.lines
	lines := min(c.lines, c.outH-y0)
	s := strip{a: c.copyBand(w, frame/c.outT, frame%c.outT, y0, lines), run: c.outW,
		lda: c.stride * c.pixel, jump: c.stride * c.line}
	for j := range g.groups() {
		g.computeTile(w, s, lines*c.outW, (frame*c.outH+y0)*c.outW, j, j+1, j+1)
	}
}

// convWeight packs the weight: once if it is cached with the model's weight, else into the arena for this call.
func (b *Backend) convWeight(op string, g *gemm, c *conv) bool {
	if g.depth == 0 {
		return true
	}
	size, w := g.packedSize(), &c.w
	if w.buf.weight != nil && w.Contiguous() {
		key := packedKey{tier: g.tier, dot: g.dot, offset: w.Offset, stride: w.Strides[0], n: w.Shape[0], k: c.cin, taps: [3]int{c.kt, c.kh, c.kw}}
		if g.packed = w.buf.weight.lookup(key); g.packed != nil {
			return true
		}
		g.packed = w.buf.weight.get(key, size, b.maxCachedTotal, func(p unsafe.Pointer) { b.packTaps(op, p) })
		if g.packed != nil {
			return b.err == nil
		}
	}
	p, _, err := b.arena.acquire(size)
	if err != nil {
		b.fail("%s: %w", op, err)
		return false
	}
	b.packTaps(op, p)
	return b.err == nil
}

// packTaps packs the weight to p. It first copies it into the order (Cout, KT, KH, KW, Cin).
func (b *Backend) packTaps(op string, p unsafe.Pointer) {
	c, g, w := &b.conv, &b.gemm, &b.conv.w
	row := c.kt * c.kh * c.kw * c.cin
	mem, _, err := b.arena.acquire(w.Len() * w.DType.Size())
	if err != nil {
		b.fail("%s: %w", op, err)
		return
	}
	taps := &buffer{}
	taps.set(w.DType, mem, w.Len())
	b.eachSpan(op, w.Shape[0], row, func(_ *worker, from, to int) {
		for o := from; o < to; o++ {
			c.gatherTaps(taps, o)
		}
	})
	g.w = packing{src: mem, stride: row * w.DType.Size(), dtype: w.DType}
	b.packAll(op, g, p)
}

// gatherTaps writes the weights of output channel o to dst in the order (KT, KH, KW, Cin).
func (c *conv) gatherTaps(dst *buffer, o int) {
	w, s := &c.w, c.w.Strides
	at := o * c.kt * c.kh * c.kw * c.cin
	for tap := range c.kt * c.kh * c.kw {
		off := w.Offset + o*s[0] + tap/(c.kh*c.kw)*s[2] + tap/c.kw%c.kh*s[3] + tap%c.kw*s[4]
		if w.DType == kernels.F32 {
			for i := range c.cin {
				dst.f32[at+i] = w.buf.f32[off+i*s[1]]
			}
		} else {
			for i := range c.cin {
				dst.u16[at+i] = w.buf.u16[off+i*s[1]]
			}
		}
		at += c.cin
	}
}
