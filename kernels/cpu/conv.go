package cpu

import (
	"latentbeam/kernels"
)

// Conv computes a convolution as one product: a row for each output pixel holding the input pixels under
// the kernel, gathered block by block and never stored whole, times the weights in the order
// (Cout, KH, KW, Cin).
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
	cout, kh, kw, cin := w.Shape[0], w.Shape[2], w.Shape[3], w.Shape[1]
	taps := b.Alloc(kernels.F32, cout, kh, kw, cin)
	b.Copy(taps, w.Permute(0, 2, 3, 1))
	tv, ok := b.open(op, taps.Reshape(cout, kh*kw*cin))
	if !ok {
		return
	}
	wr := newRows(tv[0])
	b.multiply(op, &product{a: p, b: &wr, m: e.dst.count, n: cout, k: wr.n}, e)
}

// patches is the source whose row i holds the input under the kernel at output pixel i, in the order
// (KH, KW, Cin), with zeros where the kernel leaves the image.
type patches struct {
	x                 *view
	height, width     int // of the input after upsampling
	outH, outW        int
	kw, cin           int
	stride, up        int
	top, left         int
	sn, sh, sw, schan int // strides of x
}

// newPatches checks the shapes of a convolution.
func (b *Backend) newPatches(dst, x, w *view, spec kernels.ConvSpec) (*patches, bool) {
	if len(x.Shape) != 4 || len(w.Shape) != 4 || len(dst.Shape) != 4 {
		b.fail("conv: x %v, w %v and dst %v are not (N, H, W, Cin), (Cout, Cin, KH, KW) and (N, H', W', Cout)",
			x.Shape, w.Shape, dst.Shape)
		return nil, false
	}
	p := &patches{
		x: x, stride: max(spec.Stride, 1), up: max(spec.Upsample, 1), top: spec.Top, left: spec.Left,
		cin: x.Shape[3], kw: w.Shape[3],
		sn: x.Strides[0], sh: x.Strides[1], sw: x.Strides[2], schan: x.Strides[3],
	}
	p.height, p.width = x.Shape[1]*p.up, x.Shape[2]*p.up
	roomH := p.height + spec.Top + spec.Bottom - w.Shape[2]
	roomW := p.width + spec.Left + spec.Right - w.Shape[3]
	if min(spec.Top, spec.Left, spec.Bottom, spec.Right, spec.Stride, spec.Upsample, roomH, roomW) < 0 ||
		min(w.Shape[2], w.Shape[3]) < 1 {
		b.fail("conv: kernel %v does not fit x %v with stride %d, upsample %d, padding %d %d %d %d", w.Shape,
			x.Shape, p.stride, p.up, spec.Top, spec.Left, spec.Bottom, spec.Right)
		return nil, false
	}
	p.outH, p.outW = roomH/p.stride+1, roomW/p.stride+1
	want := [4]int{x.Shape[0], p.outH, p.outW, w.Shape[0]}
	if [4]int(dst.Shape) != want || w.Shape[1] != p.cin {
		b.fail("conv: x %v and w %v give %v, dst is %v", x.Shape, w.Shape, want, dst.Shape)
		return nil, false
	}
	return p, true
}

func (p *patches) terms(scratch []float32, row, k0, n int) []float32 {
	xo, yo, img := row%p.outW, row/p.outW%p.outH, row/(p.outW*p.outH)
	scratch = scratch[:n]
	for done := 0; done < n; {
		tap, c := (k0+done)/p.cin, (k0+done)%p.cin
		run := min(p.cin-c, n-done)
		y := yo*p.stride - p.top + tap/p.kw
		x := xo*p.stride - p.left + tap%p.kw
		if y < 0 || y >= p.height || x < 0 || x >= p.width {
			clear(scratch[done : done+run])
		} else {
			off := p.x.Offset + img*p.sn + y/p.up*p.sh + x/p.up*p.sw + c*p.schan
			if run == n {
				return p.x.read(scratch, off, p.schan, n)
			}
			p.x.load(scratch[done:done+run], off, p.schan)
		}
		done += run
	}
	return scratch
}
