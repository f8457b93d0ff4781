package cpu

import (
	"slices"

	"latentbeam/kernels"
)

// Conv computes a convolution as one product: a row for each output pixel holding the input pixels under
// the kernel, gathered block by block and never stored whole, times the weights in the order
// (Cout, KT, KH, KW, Cin). An image is a video of one frame.
func (b *Backend) Conv(dst, x, w kernels.Tensor, spec kernels.ConvSpec) {
	const op = "conv"
	v, ok := b.open(op, dst, x, w, spec.Bias, spec.Residual)
	if !ok || !b.need(op, []string{"dst", "x", "w"}, v) {
		return
	}
	p, ok := b.newPatches(v[0], v[1], v[2], spec)
	if !ok {
		return
	}
	e, ok := b.newEpilogue(op, v[0], v[3], v[4], nil, kernels.Identity)
	if !ok {
		return
	}
	defer b.Scope()()
	w = asVideo(w, 2)
	cout, kt, kh, kw, cin := w.Shape[0], w.Shape[2], w.Shape[3], w.Shape[4], w.Shape[1]
	taps := b.Alloc(kernels.F32, cout, kt, kh, kw, cin)
	b.Copy(taps, w.Permute(0, 2, 3, 4, 1))
	tv, ok := b.open(op, taps.Reshape(cout, kt*kh*kw*cin))
	if !ok {
		return
	}
	wr := newRows(tv[0])
	b.multiply(op, &product{a: p, b: &wr, m: e.dst.count, n: cout, k: wr.n}, e)
}

// asVideo gives a tensor of an image convolution its time axis of length 1.
func asVideo(t kernels.Tensor, axis int) kernels.Tensor {
	if len(t.Shape) == 5 {
		return t
	}
	return t.Reshape(slices.Insert(slices.Clone(t.Shape), axis, 1)...)
}

// patches is the source whose row i holds the input under the kernel at output pixel i, in the order
// (KT, KH, KW, Cin), with zeros where the kernel leaves the video.
type patches struct {
	x                     *view
	depth, height, width  int // of the input after upsampling
	outT, outH, outW      int
	kh, kw, cin           int
	strideT, stride, up   int
	front, top, left      int
	sn, st, sh, sw, schan int // strides of x
}

// newPatches checks the shapes of a convolution.
func (b *Backend) newPatches(dst, x, w *view, spec kernels.ConvSpec) (*patches, bool) {
	rank := len(x.Shape)
	if rank != 4 && rank != 5 || len(w.Shape) != rank || len(dst.Shape) != rank {
		b.fail("conv: x %v, w %v and dst %v are not (N, [T,] H, W, Cin), (Cout, Cin, [KT,] KH, KW) and "+
			"(N, [T',] H', W', Cout)", x.Shape, w.Shape, dst.Shape)
		return nil, false
	}
	xt, kernel := asVideo(x.Tensor, 1), asVideo(w.Tensor, 2).Shape
	p := &patches{
		x: x, strideT: max(spec.StrideT, 1), stride: max(spec.Stride, 1), up: max(spec.Upsample, 1),
		front: spec.Front, top: spec.Top, left: spec.Left,
		cin: xt.Shape[4], kh: kernel[3], kw: kernel[4],
		sn: xt.Strides[0], st: xt.Strides[1], sh: xt.Strides[2], sw: xt.Strides[3], schan: xt.Strides[4],
	}
	p.depth, p.height, p.width = xt.Shape[1], xt.Shape[2]*p.up, xt.Shape[3]*p.up
	roomT := p.depth + spec.Front + spec.Back - kernel[2]
	roomH := p.height + spec.Top + spec.Bottom - kernel[3]
	roomW := p.width + spec.Left + spec.Right - kernel[4]
	if min(spec.Front, spec.Back, spec.Top, spec.Left, spec.Bottom, spec.Right) < 0 ||
		min(spec.StrideT, spec.Stride, spec.Upsample, roomT, roomH, roomW) < 0 ||
		min(kernel[2], kernel[3], kernel[4]) < 1 {
		b.fail("conv: kernel %v does not fit x %v with strides %d and %d, upsample %d, padding %d %d %d %d, "+
			"in time %d %d", w.Shape, x.Shape, p.strideT, p.stride, p.up, spec.Top, spec.Left, spec.Bottom, spec.Right,
			spec.Front, spec.Back)
		return nil, false
	}
	p.outT, p.outH, p.outW = roomT/p.strideT+1, roomH/p.stride+1, roomW/p.stride+1
	want := []int{x.Shape[0], p.outT, p.outH, p.outW, w.Shape[0]}
	if rank == 4 {
		want = slices.Delete(want, 1, 2)
	}
	if !slices.Equal(dst.Shape, want) || w.Shape[1] != p.cin || rank == 4 && p.outT != 1 {
		b.fail("conv: x %v and w %v give %v, dst is %v", x.Shape, w.Shape, want, dst.Shape)
		return nil, false
	}
	return p, true
}

func (p *patches) terms(scratch []float32, row, k0, n int) []float32 {
	xo, yo := row%p.outW, row/p.outW%p.outH
	frame := row / (p.outW * p.outH)
	to, img := frame%p.outT, frame/p.outT
	scratch = scratch[:n]
	for done := 0; done < n; {
		tap, c := (k0+done)/p.cin, (k0+done)%p.cin
		run := min(p.cin-c, n-done)
		t := to*p.strideT - p.front + tap/(p.kh*p.kw)
		y := yo*p.stride - p.top + tap/p.kw%p.kh
		x := xo*p.stride - p.left + tap%p.kw
		if t < 0 || t >= p.depth || y < 0 || y >= p.height || x < 0 || x >= p.width {
			clear(scratch[done : done+run])
		} else {
			off := p.x.Offset + img*p.sn + t*p.st + y/p.up*p.sh + x/p.up*p.sw + c*p.schan
			if run == n {
				return p.x.read(scratch, off, p.schan, n)
			}
			p.x.load(scratch[done:done+run], off, p.schan)
		}
		done += run
	}
	return scratch
}
