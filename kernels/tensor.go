package kernels

import (
	"fmt"
	"slices"
)

// Tensor is a strided view of a buffer that a Backend owns. It is a small value: copying it copies the
// view, never the data. The host reads its elements only through Backend.Download.
//
// The methods only compute views, so they cost nothing and enqueue nothing. An impossible view is a mistake in a model's code,
// not in its input, so the methods panic.
type Tensor struct {
	DType   DType
	Shape   []int // axes, slowest first
	Strides []int // elements between neighbours on each axis; 0 repeats (see Expand)
	Offset  int   // first element in the buffer
	Buf     any   // the backend's own buffer; nil for the zero Tensor, which means "none"
}

// NewTensor returns the contiguous row-major view of buf. Backends call it; models do not.
func NewTensor(dt DType, buf any, shape ...int) Tensor {
	axes := len(shape)
	both := make([]int, 2*axes) // in one allocation: tensors are made for every operation
	t := Tensor{DType: dt, Shape: both[:axes:axes], Strides: both[axes:], Buf: buf}
	copy(t.Shape, shape)
	n := 1
	for i := axes - 1; i >= 0; i-- {
		t.Strides[i] = n
		n *= shape[i]
	}
	return t
}

// IsZero reports whether t is the zero Tensor, which optional operands use for "none".
func (t Tensor) IsZero() bool { return t.Buf == nil }

// Elements returns how many elements a shape has.
func Elements(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// Len returns the number of elements of the view.
func (t Tensor) Len() int { return Elements(t.Shape) }

// Dim returns the length of axis i; negative i counts from the end.
func (t Tensor) Dim(i int) int { return t.Shape[t.axis(i)] }

// Contiguous reports whether the view is dense and row-major.
func (t Tensor) Contiguous() bool {
	n := 1
	for i := len(t.Shape) - 1; i >= 0; i-- {
		if t.Shape[i] != 1 && t.Strides[i] != n {
			return false
		}
		n *= t.Shape[i]
	}
	return true
}

// Reshape returns the same elements in row-major order under another shape. Each new axis must lie
// inside a contiguous run of old axes; otherwise it panics (use Backend.Copy first).
func (t Tensor) Reshape(shape ...int) Tensor {
	n := Elements(shape)
	if n != t.Len() {
		panic(fmt.Sprintf("kernels: reshape %v to %v: %d elements do not become %d", t.Shape, shape, t.Len(), n))
	}
	if n == 0 { // no element to address: any strides will do
		e := NewTensor(t.DType, t.Buf, shape...)
		e.Offset = t.Offset
		return e
	}
	strides, ok := reshapeStrides(t.Shape, t.Strides, shape)
	if !ok {
		panic(fmt.Sprintf("kernels: reshape %v with strides %v to %v needs a copy", t.Shape, t.Strides, shape))
	}
	t.Shape, t.Strides = slices.Clone(shape), strides
	return t
}

// reshapeStrides finds strides for shape over the runs of old axes that are contiguous together.
func reshapeStrides(oldShape, oldStrides, shape []int) ([]int, bool) {
	strides := make([]int, len(shape))
	i := len(oldShape) - 1
	run, step := 1, 1 // elements still unassigned in the current run, and its innermost stride
	for j := len(shape) - 1; j >= 0; j-- {
		if shape[j] == 1 {
			strides[j] = run * step
			continue
		}
		if run == 1 {
			for i >= 0 && oldShape[i] == 1 {
				i--
			}
			run, step = oldShape[i], oldStrides[i]
			for i--; i >= 0 && (oldShape[i] == 1 || oldStrides[i] == run*step); i-- {
				run *= oldShape[i]
			}
		}
		if run%shape[j] != 0 {
			return nil, false
		}
		strides[j] = step
		step *= shape[j]
		run /= shape[j]
	}
	return strides, run == 1
}

// Narrow returns n entries of axis from start on.
func (t Tensor) Narrow(axis, start, n int) Tensor {
	axis = t.axis(axis)
	if start < 0 || n < 0 || start+n > t.Shape[axis] {
		panic(fmt.Sprintf("kernels: narrow axis %d of %v to [%d, %d)", axis, t.Shape, start, start+n))
	}
	t.Shape = slices.Clone(t.Shape)
	t.Shape[axis] = n
	t.Offset += start * t.Strides[axis]
	return t
}

// Index returns entry i of the first axis, without that axis.
func (t Tensor) Index(i int) Tensor {
	t = t.Narrow(0, i, 1)
	t.Shape, t.Strides = t.Shape[1:], t.Strides[1:]
	return t
}

// Permute returns the view whose axis i is axis axes[i] of t.
func (t Tensor) Permute(axes ...int) Tensor {
	if len(axes) != len(t.Shape) {
		panic(fmt.Sprintf("kernels: permute %v by %v", t.Shape, axes))
	}
	shape, strides := make([]int, len(axes)), make([]int, len(axes))
	for i, a := range axes {
		shape[i], strides[i] = t.Shape[a], t.Strides[a]
	}
	t.Shape, t.Strides = shape, strides
	return t
}

// Expand repeats axes of length 1 (and missing leading axes) up to shape, without copying.
func (t Tensor) Expand(shape ...int) Tensor {
	strides := make([]int, len(shape))
	lead := len(shape) - len(t.Shape)
	for i := range shape {
		switch {
		case i < lead:
		case t.Shape[i-lead] == shape[i]:
			strides[i] = t.Strides[i-lead]
		case t.Shape[i-lead] != 1:
			panic(fmt.Sprintf("kernels: expand %v to %v", t.Shape, shape))
		}
	}
	t.Shape, t.Strides = slices.Clone(shape), strides
	return t
}

func (t Tensor) axis(i int) int {
	if i < 0 {
		i += len(t.Shape)
	}
	return i
}
