package cpu

import (
	"fmt"

	"latentbeam/kernels"
)

// maxAxes is the largest number of axes of an operand.
const maxAxes = 10

// view is a tensor resolved to its memory.
type view struct {
	kernels.Tensor
	buf *buffer
}

// newView resolves t and checks that every element is inside its buffer.
func newView(t kernels.Tensor) (view, error) {
	buf, ok := t.Buf.(*buffer)
	if !ok {
		return view{}, fmt.Errorf("the tensor of shape %v belongs to another device (%T)", t.Shape, t.Buf)
	}
	if buf.freed {
		return view{}, fmt.Errorf("shape %v: %w", t.Shape, errFreed)
	}
	if len(t.Shape) > maxAxes {
		return view{}, fmt.Errorf("shape %v has more than %d axes", t.Shape, maxAxes)
	}
	if len(t.Strides) != len(t.Shape) {
		return view{}, fmt.Errorf("shape %v has %d strides", t.Shape, len(t.Strides))
	}
	n, err := elements(t.Shape)
	if err != nil {
		return view{}, err
	}
	if n == 0 {
		return view{t, buf}, nil
	}
	first, last := t.Offset, t.Offset
	for i, d := range t.Shape {
		if t.Strides[i] < 0 {
			first += (d - 1) * t.Strides[i]
		} else {
			last += (d - 1) * t.Strides[i]
		}
	}
	size := len(buf.f32)
	if t.DType != kernels.F32 {
		size = len(buf.u16)
	}
	if first < 0 || last >= size {
		return view{}, fmt.Errorf("view %v with strides %v at %d leaves its %v buffer of %d elements",
			t.Shape, t.Strides, t.Offset, t.DType, size)
	}
	return view{t, buf}, nil
}

// load copies the elements at off, off+stride, ... to dst as fp32.
func (v *view) load(dst []float32, off, stride int) {
	switch {
	case len(dst) == 0:
	case v.DType == kernels.F32 && stride == 1:
		copy(dst, v.buf.f32[off:])
	case v.DType == kernels.F32:
		src := v.buf.f32
		for i := range dst {
			dst[i] = src[off]
			off += stride
		}
	case stride == 1:
		conversions.widen[v.DType](dst, v.buf.u16[off:off+len(dst)])
	default:
		src, widen := v.buf.u16, kernels.FromBF16
		if v.DType == kernels.F16 {
			widen = kernels.FromF16
		}
		for i := range dst {
			dst[i] = widen(src[off])
			off += stride
		}
	}
}

// store rounds src to the elements at off, off+stride, ... If src is the memory that target returned, the elements are already
// in place.
func (v *view) store(src []float32, off, stride int) {
	switch {
	case len(src) == 0:
	case v.DType == kernels.F32 && stride == 1:
		if dst := v.buf.f32[off : off+len(src)]; &dst[0] != &src[0] {
			copy(dst, src)
		}
	case v.DType == kernels.F32:
		dst := v.buf.f32
		for _, x := range src {
			dst[off] = x
			off += stride
		}
	case stride == 1:
		conversions.narrow[v.DType](v.buf.u16[off:off+len(src)], src)
	default:
		dst, narrow := v.buf.u16, kernels.ToBF16
		if v.DType == kernels.F16 {
			narrow = kernels.ToF16
		}
		for _, x := range src {
			dst[off] = narrow(x)
			off += stride
		}
	}
}

// read returns n elements at off: the memory itself if it is dense fp32, else a copy in scratch.
func (v *view) read(scratch []float32, off, stride, n int) []float32 {
	if v.DType == kernels.F32 && stride == 1 && n > 0 {
		return v.buf.f32[off : off+n]
	}
	v.load(scratch[:n], off, stride)
	return scratch[:n]
}

// target returns the memory in which n elements for off may be computed before they are stored: their own memory if it is dense
// fp32, else scratch.
func (v *view) target(scratch []float32, off, stride, n int) []float32 {
	if v.DType == kernels.F32 && stride == 1 && n > 0 {
		return v.buf.f32[off : off+n]
	}
	return scratch[:n]
}
