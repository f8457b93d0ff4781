//go:build cuda && linux

package cuda

// #include "kern/kernels.h"
import "C"

import (
	"fmt"
	"slices"

	"latentbeam/kernels"
)

// shape holds the axes that the operands of a call share, as kernels read them: axes of length 1 are left out, and neighbouring
// axes are merged if their strides allow it in all operands.
type shape struct {
	dims    []int
	strides [][]int // of each operand, elements between neighbours on each axis
}

// newShape merges axes [0, axes) of operands, which have equal lengths there. Operands may be nil.
func newShape(axes int, operands ...*operand) (shape, error) {
	s := shape{strides: make([][]int, len(operands))}
	memory := make([]int, 0, (len(operands)+1)*max(1, axes))
	newList := func() []int { // an empty list with room for all axes
		n := len(memory)
		memory = memory[:n+max(1, axes)]
		return memory[n:n:len(memory)]
	}
	s.dims = newList()
	for i := range s.strides {
		s.strides[i] = newList()
	}
	var dims []int
	for _, o := range operands {
		if o != nil {
			dims = o.Shape[:axes]
			break
		}
	}
	for axis, d := range dims {
		if d == 1 {
			continue
		}
		last := len(s.dims) - 1
		joins := last >= 0
		for i, o := range operands {
			joins = joins && (o == nil || s.strides[i][last] == o.Strides[axis]*d)
		}
		if joins {
			s.dims[last] *= d
		} else {
			s.dims = append(s.dims, d)
			last++
		}
		for i, o := range operands {
			switch {
			case o == nil:
			case joins:
				s.strides[i][last] = o.Strides[axis]
			default:
				s.strides[i] = append(s.strides[i], o.Strides[axis])
			}
		}
	}
	if len(s.dims) == 0 {
		s.dims = append(s.dims, 1)
		for i := range s.strides {
			s.strides[i] = append(s.strides[i], 1)
		}
	}
	if len(s.dims) > C.LB_AXES {
		return s, fmt.Errorf("shape %v has %d axes that cannot be merged, at most %d are supported: copy the operands first",
			dims, len(s.dims), int(C.LB_AXES))
	}
	return s, s.countable()
}

// countable returns an error if the shape has more elements than a kernel can count.
func (s shape) countable() error {
	n := 1
	for _, d := range s.dims {
		if d == 0 {
			return nil
		}
		if n > maxElementsPerLaunch/d {
			return fmt.Errorf("shape %v has more elements than a kernel counts to (%d): make the batch smaller", s.dims, maxElementsPerLaunch)
		}
		n *= d
	}
	return nil
}

// axes returns the shape in the form that kernels read.
func (s shape) axes() (c C.lb_shape) {
	c.axes = C.lb_i32(len(s.dims))
	for i, d := range s.dims {
		c.dim[i] = C.lb_i32(d)
	}
	return c
}

// view returns operand i of the shape in the form that kernels read. col is its step along the last axis of a matrix, if that
// axis is not part of the shape.
func (s shape) view(i int, o *operand, col int) (v C.lb_view) {
	if o == nil {
		return v
	}
	v.ptr = C.lb_u64(o.ptr)
	v.dtype = C.lb_i32(o.DType)
	v.col = C.lb_i64(col)
	for axis, stride := range s.strides[i] {
		v.stride[axis] = C.lb_i64(stride)
	}
	return v
}

// sameShape reports whether two shapes are equal.
func sameShape(a, b kernels.Tensor) bool { return slices.Equal(a.Shape, b.Shape) }
