//go:build cuda && linux

package cuda

import (
	"errors"
	"fmt"

	"gorgonia.org/cu"

	"latentbeam/kernels"
)

// maxAxes is the largest number of axes of an operand.
const maxAxes = 10

// operand is a tensor resolved to its memory.
type operand struct {
	kernels.Tensor
	buf *buffer
	ptr cu.DevicePtr // address of the first element
}

var errFreed = errors.New("the tensor was used after the end of its scope")

// newOperand resolves t.
func newOperand(t kernels.Tensor) (*operand, error) {
	o := &operand{}
	return o, o.resolve(t)
}

// resolve sets o to t and checks that every element is inside its buffer.
func (o *operand) resolve(t kernels.Tensor) error {
	buf, ok := t.Buf.(*buffer)
	switch {
	case !ok:
		return fmt.Errorf("the tensor of shape %v belongs to another device (%T)", t.Shape, t.Buf)
	case buf.freed:
		return fmt.Errorf("shape %v: %w", t.Shape, errFreed)
	case len(t.Shape) > maxAxes:
		return fmt.Errorf("shape %v has more than %d axes", t.Shape, maxAxes)
	case len(t.Strides) != len(t.Shape):
		return fmt.Errorf("shape %v has %d strides", t.Shape, len(t.Strides))
	case t.DType > kernels.F16:
		return fmt.Errorf("element type %v is not supported", t.DType)
	}
	n, err := elements(t.Shape)
	if err != nil {
		return err
	}
	o.Tensor, o.buf = t, buf
	if n == 0 {
		return nil
	}
	size := t.DType.Size()
	if first, last := o.reach(); first < 0 || last >= buf.size/size {
		return fmt.Errorf("view %v with strides %v at %d leaves its %v buffer of %d elements",
			t.Shape, t.Strides, t.Offset, t.DType, buf.size/size)
	}
	o.ptr = buf.ptr + cu.DevicePtr(t.Offset*size)
	return nil
}

// reach returns the first and the last element of the buffer that the view uses. The view must not be empty.
func (o *operand) reach() (first, last int) {
	first, last = o.Offset, o.Offset
	for i, d := range o.Shape {
		if o.Strides[i] < 0 {
			first += (d - 1) * o.Strides[i]
		} else {
			last += (d - 1) * o.Strides[i]
		}
	}
	return first, last
}

// narrow returns n entries of axis from start on.
func (o *operand) narrow(axis, start, n int) *operand {
	t := o.Tensor.Narrow(axis, start, n)
	return &operand{Tensor: t, buf: o.buf, ptr: o.ptr + cu.DevicePtr((t.Offset-o.Offset)*t.DType.Size())}
}
