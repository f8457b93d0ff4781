package cpu

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"unsafe"

	"latentbeam/kernels"
)

// maxElements limits the size of a tensor, so that a wrong shape is an error and not an attempt to allocate all memory.
const maxElements = 1 << 36

// buffer is what Tensor.Buf points to: the elements of one allocation or one weight.
type buffer struct {
	f32    []float32 // F32
	u16    []uint16  // BF16 and F16, as bits
	freed  bool
	chunk  *chunk       // the chunk that holds the elements, if an arena allocated them
	weight *weightState // set for weights
}

// Weights returns a tensor over data, without a copy if data is aligned to its elements.
func (b *Backend) Weights(dt kernels.DType, shape []int, data []byte) (kernels.Tensor, error) {
	n, err := elements(shape)
	if err != nil {
		return kernels.Tensor{}, fmt.Errorf("cpu: weights: %w", err)
	}
	if dt > kernels.F16 {
		return kernels.Tensor{}, fmt.Errorf("cpu: weights: element type %v is not supported", dt)
	}
	if len(data) != n*dt.Size() {
		return kernels.Tensor{}, fmt.Errorf("cpu: weights: %d bytes for %v of %v, want %d",
			len(data), shape, dt, n*dt.Size())
	}
	buf := &buffer{weight: &weightState{}}
	if dt == kernels.F32 {
		buf.f32 = inPlace(data, n, binary.LittleEndian.Uint32, float32FromBits)
	} else {
		buf.u16 = inPlace(data, n, binary.LittleEndian.Uint16, func(u uint16) uint16 { return u })
	}
	b.recordNext(b.lastLoaded, buf, false)
	b.lastLoaded = buf
	return kernels.NewTensor(dt, buf, shape...), nil
}

// inPlace returns the n little-endian elements of data. It returns the bytes themselves if the host can read them directly,
// else a decoded copy.
func inPlace[E float32 | uint16, U uint16 | uint32](
	data []byte, n int, get func([]byte) U, to func(U) E,
) []E {
	if n == 0 {
		return []E{}
	}
	size := int(unsafe.Sizeof(E(0)))
	p := unsafe.Pointer(unsafe.SliceData(data))
	if littleEndian && uintptr(p)%uintptr(size) == 0 {
		return unsafe.Slice((*E)(p), n)
	}
	out := make([]E, n)
	for i := range out {
		out[i] = to(get(data[i*size:]))
	}
	return out
}

func float32FromBits(u uint32) float32 { return *(*float32)(unsafe.Pointer(&u)) }

var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// elements returns the product of shape, or an error if an axis is negative or the product too large.
func elements(shape []int) (int, error) {
	n := uint64(1)
	for _, d := range shape {
		if d < 0 {
			return 0, fmt.Errorf("shape %v has a negative axis", shape)
		}
		hi, lo := bits.Mul64(n, uint64(d))
		if hi != 0 || lo > maxElements {
			return 0, fmt.Errorf("shape %v has more than %d elements", shape, maxElements)
		}
		n = lo
	}
	return int(n), nil
}
