package torchpickle

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
)

// storage is the data that tensors are views of.
type storage struct {
	key   string
	dtype string // as in safetensors; "" for bytes without a type
	count uint64 // elements
	data  []byte // part of the file; in the legacy format nil until the pickle is read
}

func (s *storage) bytes() uint64 { return s.count * itemSizes[s.dtype] }

// Tensor is a view of a storage in the file.
type Tensor struct {
	DType  string // as in safetensors: F32, BF16, I64, ...
	Shape  []int  // slowest axis first; empty for a scalar
	stride []int  // in elements
	offset int    // in elements
	of     *storage
}

// Len returns the number of elements.
func (t *Tensor) Len() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Bytes returns the length of the elements in bytes.
func (t *Tensor) Bytes() int { return t.Len() * t.item() }

func (t *Tensor) item() int { return int(itemSizes[t.DType]) }

// rebuildTensor takes storage, offset, shape and stride. Other arguments do not concern values.
func rebuildTensor(args tuple) (any, error) {
	if len(args) < 4 {
		return nil, fmt.Errorf("%d arguments, want 4", len(args))
	}
	s, err := convertTo[*storage](args[0], "a storage")
	if err != nil {
		return nil, err
	}
	return view(s, s.dtype, args)
}

// rebuildTyped is rebuildTensor with the element type as argument 6, over a storage of bytes.
func rebuildTyped(args tuple) (any, error) {
	if len(args) < 7 {
		return nil, fmt.Errorf("%d arguments, want 7", len(args))
	}
	s, err := convertTo[*storage](args[0], "a storage")
	if err != nil {
		return nil, err
	}
	c, err := convertTo[class](args[6], "an element type")
	if err != nil {
		return nil, err
	}
	return view(s, c.dtype, args)
}

// view makes a tensor and checks that it is inside its storage. It must not have more elements than the storage, because an
// expanded tensor of one element could claim any size.
func view(s *storage, dtype string, args tuple) (*Tensor, error) {
	if dtype == "" {
		return nil, errors.New("a tensor without an element type")
	}
	offset, err := convertTo[int64](args[1], "an offset")
	if err != nil {
		return nil, err
	}
	shape, err := lengths(args[2])
	if err != nil {
		return nil, fmt.Errorf("shape: %w", err)
	}
	stride, err := lengths(args[3])
	if err != nil {
		return nil, fmt.Errorf("stride: %w", err)
	}
	if len(shape) != len(stride) || offset < 0 {
		return nil, fmt.Errorf("shape %v, stride %v and offset %d do not fit together", shape, stride, offset)
	}
	t := &Tensor{DType: dtype, Shape: shape, stride: stride, offset: int(offset), of: s}
	have := s.bytes() / itemSizes[dtype]
	n, err := elements(shape)
	switch {
	case err != nil:
		return nil, err
	case n == 0:
		return t, nil
	case n > have:
		return nil, fmt.Errorf("shape %v has %d elements, its storage %d (save an expanded tensor as "+
			"contiguous())", shape, n, have)
	case uint64(offset) >= have:
		return nil, fmt.Errorf("offset %d is outside of a storage of %d elements", offset, have)
	}
	left := have - 1 - uint64(offset) // elements after the first
	for i, d := range shape {
		if d > 1 && stride[i] > 0 && uint64(d-1) > left/uint64(stride[i]) {
			return nil, fmt.Errorf("shape %v, stride %v and offset %d reach beyond a storage of %d elements",
				shape, stride, offset, have)
		}
		left -= uint64(d-1) * uint64(stride[i])
	}
	return t, nil
}

// lengths reads a tuple of non-negative numbers.
func lengths(v any) ([]int, error) {
	items, err := convertTo[tuple](v, "a tuple of numbers")
	if err != nil {
		return nil, err
	}
	if len(items) > maxAxes {
		return nil, fmt.Errorf("%d axes, at most %d are read", len(items), maxAxes)
	}
	out := make([]int, len(items))
	for i, item := range items {
		n, err := convertTo[int64](item, "a number")
		if err != nil {
			return nil, err
		}
		if n < 0 {
			return nil, fmt.Errorf("%d is negative", n)
		}
		out[i] = int(n)
	}
	return out, nil
}

// elements returns the product of shape. It returns an error if the product does not fit an int.
func elements(shape []int) (uint64, error) {
	n := uint64(1)
	for _, d := range shape {
		hi, lo := bits.Mul64(n, uint64(d))
		if hi != 0 || lo>>62 != 0 {
			return 0, fmt.Errorf("shape %v overflows", shape)
		}
		n = lo
	}
	return n, nil
}

// chunk is the number of bytes that are written at a time: whole elements of every type.
const chunk = 256 << 10

// WriteTo writes the elements to w, little-endian and row-major, in pieces of whole elements. Its memory does not depend on the
// tensor's size.
func (t *Tensor) WriteTo(w io.Writer) (int64, error) {
	if t.Len() == 0 {
		return 0, nil
	}
	if t.contiguous() {
		return writeChunks(w, t.of.data[t.offset*t.item():][:t.Bytes()])
	}
	return t.gather(w)
}

func writeChunks(w io.Writer, data []byte) (written int64, err error) {
	for len(data) > 0 {
		n, err := w.Write(data[:min(chunk, len(data))])
		written += int64(n)
		if err != nil {
			return written, err
		}
		data = data[n:]
	}
	return written, nil
}

// contiguous reports whether the elements are adjacent in row-major order.
func (t *Tensor) contiguous() bool {
	want := 1
	for i := len(t.Shape) - 1; i >= 0; i-- {
		if t.Shape[i] != 1 && t.stride[i] != want {
			return false
		}
		want *= t.Shape[i]
	}
	return true
}

// gather writes a view whose elements are not adjacent in the storage.
func (t *Tensor) gather(w io.Writer) (written int64, err error) {
	buffer := make([]byte, 0, chunk)
	flush := func() error {
		n, err := w.Write(buffer)
		written += int64(n)
		buffer = buffer[:0]
		return err
	}
	index := make([]int, len(t.Shape))
	at, data := t.offset, t.of.data
	for range t.Len() {
		switch t.item() {
		case 1:
			buffer = append(buffer, data[at])
		case 2:
			buffer = binary.LittleEndian.AppendUint16(buffer, binary.LittleEndian.Uint16(data[2*at:]))
		case 4:
			buffer = binary.LittleEndian.AppendUint32(buffer, binary.LittleEndian.Uint32(data[4*at:]))
		default:
			buffer = binary.LittleEndian.AppendUint64(buffer, binary.LittleEndian.Uint64(data[8*at:]))
		}
		if len(buffer) == chunk {
			if err := flush(); err != nil {
				return written, err
			}
		}
		at += t.step(index)
	}
	return written, flush()
}

// step moves index to the next element in row-major order and returns the distance in the storage.
func (t *Tensor) step(index []int) (distance int) {
	for i := len(index) - 1; i >= 0; i-- {
		index[i]++
		distance += t.stride[i]
		if index[i] < t.Shape[i] {
			return distance
		}
		distance -= t.stride[i] * index[i]
		index[i] = 0
	}
	return distance
}
