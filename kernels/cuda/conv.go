//go:build cuda && linux

package cuda

// #include "kern/kernels.h"
// #include "kern/args_conv.h"
import "C"

import (
	"fmt"
	"slices"
	"unsafe"

	"latentbeam/kernels"
)

// Conv computes a convolution of images or videos as one product, whose left operand is gathered on the fly.
func (b *Backend) Conv(dst, x, w kernels.Tensor, spec kernels.ConvSpec) {
	b.conv(dst, x, w, spec, func(kernel C.enum_lb_conv_kernel) C.enum_lb_conv_kernel { return kernel })
}

// conv is Conv with another kernel: override gets the kernel that Conv chooses and returns the one to use.
func (b *Backend) conv(dst, x, w kernels.Tensor, spec kernels.ConvSpec,
	override func(C.enum_lb_conv_kernel) C.enum_lb_conv_kernel) {
	const op = "conv"
	o, ok := b.resolve(op, dst, x, w, spec.Bias, spec.Residual)
	if !ok || !b.checkPresent(op, []string{"dst", "x", "w"}, o) || !b.checkConv(dst, x, w, spec) ||
		!b.checkEpilogue(op, dst, kernels.Epilogue{Bias: spec.Bias, Residual: spec.Residual}) || dst.Len() == 0 {
		return
	}
	m := b.arena.mark()
	defer b.arena.reset(m)
	dv, xv, wv, rv := o[0].video(1), o[1].video(1), o[2].video(2), o[4].video(1)
	wv, err := b.kernelMatrix(op, wv)
	if err != nil {
		b.fail("%s: %w", op, err)
		return
	}
	s := shape{dims: dv.Shape[:4], strides: [][]int{dv.Strides[:4], xv.Strides[:4], nil}}
	if rv != nil {
		s.strides[2] = rv.Strides[:4]
	}
	if err := s.countable(); err != nil {
		b.fail("%s: %w", op, err)
		return
	}
	a := &C.lb_conv_args{
		out: s.axes(), cout: C.lb_i32(wv.Shape[0]), cin: C.lb_i32(wv.Shape[1]),
		depth: C.lb_i32(xv.Shape[1]), height: C.lb_i32(xv.Shape[2]), width: C.lb_i32(xv.Shape[3]),
		kt: C.lb_i32(wv.Shape[2]), kh: C.lb_i32(wv.Shape[3]), kw: C.lb_i32(wv.Shape[4]),
		stride_t: C.lb_i32(max(spec.StrideT, 1)), stride: C.lb_i32(max(spec.Stride, 1)),
		up: C.lb_i32(max(spec.Upsample, 1)), front: C.lb_i32(spec.Front), top: C.lb_i32(spec.Top),
		left: C.lb_i32(spec.Left), x: s.view(1, xv, step(xv)),
		w: C.lb_u64(wv.ptr), w_row: C.lb_i64(wv.Strides[0]), w_tap: C.lb_i64(tapStep(wv)),
		w_col: C.lb_i64(wv.Strides[1]), w_dtype: C.lb_i32(wv.DType),
		ep: epilogue(s, [...]int{0, 0, 2}, dv, nil, rv, o[3], kernels.Identity),
	}
	kernel := override(C.lb_conv_pick(a, C.lb_i32(b.eng.arch())))
	b.launch(op, kernelName(C.lb_conv_name(kernel)), C.lb_conv_launch(a, kernel), unsafe.Pointer(a))
}

// video returns o with a time axis inserted at axis, if o is an image or its kernel.
func (o *operand) video(axis int) *operand {
	if o == nil || len(o.Shape) == 5 {
		return o
	}
	v := *o
	v.Shape, v.Strides = slices.Insert(slices.Clone(o.Shape), axis, 1), slices.Insert(slices.Clone(o.Strides), axis, 0)
	return &v
}

// kernelMatrix returns w (Cout, Cin, KT, KH, KW) with taps at equal distances. For a weight the input channels are also
// contiguous: it returns a copy that is cached with the weight.
func (b *Backend) kernelMatrix(op string, w *operand) (*operand, error) {
	taps := w.Shape[2] * w.Shape[3] * w.Shape[4]
	if w.buf.weight && w.Shape[1] > 1 && taps > 1 {
		return b.packedWeight(op, w)
	}
	if evenTaps(w) {
		return w, nil
	}
	packed, ok := b.scratch(op, w.DType, []int{w.Shape[0], taps, w.Shape[1]})
	if !ok {
		return nil, b.err
	}
	return b.pack(op, packed, w), nil
}

// tapStep returns the distance between neighbouring taps of w (Cout, Cin, KT, KH, KW), along the axes with more than one tap.
func tapStep(w *operand) int {
	for axis := 4; axis >= 2; axis-- {
		if w.Shape[axis] > 1 {
			return w.Strides[axis]
		}
	}
	return 0
}

// evenTaps reports whether all neighbouring taps of w have the distance tapStep.
func evenTaps(w *operand) bool {
	next := tapStep(w)
	for axis := 4; axis >= 2; axis-- {
		if w.Shape[axis] > 1 && w.Strides[axis] != next {
			return false
		}
		next *= w.Shape[axis]
	}
	return true
}

// pack copies w (Cout, Cin, KT, KH, KW) to dst in the order (Cout, KT, KH, KW, Cin) and returns dst with w's shape.
func (b *Backend) pack(op string, dst, w *operand) *operand {
	s := w.Shape
	dense := dst.Tensor.Reshape(s[0], s[2], s[3], s[4], s[1]).Permute(0, 4, 1, 2, 3)
	view := &operand{Tensor: dense, buf: dst.buf, ptr: dst.ptr}
	b.copyOf(op, view, w)
	return view
}

// packedKey identifies the packed part of a weight.
type packedKey string

// packedWeight returns w packed; it is packed once for all backends of the device.
func (b *Backend) packedWeight(op string, w *operand) (*operand, error) {
	key := packedKey(fmt.Sprint(w.Shape, w.Strides, w.Offset))
	w.buf.mu.Lock()
	defer w.buf.mu.Unlock()
	if p := w.buf.packed[key]; p != nil {
		b.retained = append(b.retained, p.buf)
		return p, nil
	}
	buf, err := b.eng.newBuffer(w.Len() * w.DType.Size())
	if err != nil {
		return nil, err
	}
	dst := &operand{Tensor: kernels.NewTensor(w.DType, buf, w.Shape...), buf: buf, ptr: buf.ptr}
	p := b.pack(op, dst, w)
	if err := b.sync(op); err != nil { // other streams may use it from now on
		return nil, err
	}
	if w.buf.packed == nil {
		w.buf.packed = map[packedKey]*operand{}
	}
	w.buf.packed[key] = p
	return p, nil
}

// checkConv checks the shapes of a convolution.
func (b *Backend) checkConv(dst, x, w kernels.Tensor, spec kernels.ConvSpec) bool {
	rank := len(x.Shape)
	if rank != 4 && rank != 5 || len(w.Shape) != rank || len(dst.Shape) != rank {
		b.fail("conv: x %v, w %v and dst %v are not (N, [T,] H, W, Cin), (Cout, Cin, [KT,] KH, KW) and "+
			"(N, [T',] H', W', Cout)", x.Shape, w.Shape, dst.Shape)
		return false
	}
	in, taps := x.Shape[1:rank-1], w.Shape[2:]
	if rank == 4 {
		in, taps = append([]int{1}, in...), append([]int{1}, taps...)
	}
	strideT, stride, up := max(spec.StrideT, 1), max(spec.Stride, 1), max(spec.Upsample, 1)
	roomT := in[0] + spec.Front + spec.Back - taps[0]
	roomH := in[1]*up + spec.Top + spec.Bottom - taps[1]
	roomW := in[2]*up + spec.Left + spec.Right - taps[2]
	if min(spec.Front, spec.Back, spec.Top, spec.Left, spec.Bottom, spec.Right) < 0 ||
		min(spec.StrideT, spec.Stride, spec.Upsample, roomT, roomH, roomW) < 0 || min(taps[0], taps[1], taps[2]) < 1 {
		b.fail("conv: kernel %v does not fit x %v with strides %d and %d, upsample %d, padding %d %d %d %d, "+
			"in time %d %d", w.Shape, x.Shape, strideT, stride, up, spec.Top, spec.Left, spec.Bottom, spec.Right,
			spec.Front, spec.Back)
		return false
	}
	want := []int{x.Shape[0], roomT/strideT + 1, roomH/stride + 1, roomW/stride + 1, w.Shape[0]}
	if rank == 4 {
		if want[1] != 1 {
			b.fail("conv: x %v is of images and has no frames to pad", x.Shape)
			return false
		}
		want = slices.Delete(want, 1, 2)
	}
	if !slices.Equal(dst.Shape, want) || w.Shape[1] != x.Shape[rank-1] {
		b.fail("conv: x %v and w %v give %v, dst is %v", x.Shape, w.Shape, want, dst.Shape)
		return false
	}
	return true
}
