//go:build cuda && linux

package cuda

import (
	"fmt"
	"math/bits"
	"runtime"
	"sync"

	"gorgonia.org/cu"

	"latentbeam/kernels/cuda/driver"
)

// maxElements bounds one tensor, so that a wrong shape is an error and not an attempt to take all memory.
const maxElements = 1 << 36

// buffer is what Tensor.Buf points to: device memory of one allocation or one weight.
type buffer struct {
	eng   *engine
	ptr   cu.DevicePtr
	size  int // bytes
	freed bool
	own   bool // not part of an arena: the memory lives as long as the buffer is used

	cleanup runtime.Cleanup // of own

	weight bool // it does not change any more
	mu     sync.Mutex
	packed map[packedKey]*operand // of a weight: its kernels, see Conv
}

// alloc takes device memory, on any goroutine.
func (e *engine) alloc(size int) (p cu.DevicePtr, err error) {
	err = e.do(func() (err error) {
		p, err = cu.MemAlloc(int64(size))
		return driver.Check("cuMemAlloc", err)
	})
	if err != nil {
		return 0, fmt.Errorf("%d bytes on %s: %w", size, e.name(), err)
	}
	return p, nil
}

// free gives memory back once the device has done what it was given so far. Where the engine has ended there is
// nothing to give back.
func (e *engine) free(p cu.DevicePtr) {
	e.later(func() error {
		if err := cu.Synchronize(); err != nil {
			return driver.Check("cuCtxSynchronize", err)
		}
		return driver.Check("cuMemFree", cu.MemFree(p))
	})
}

// newBuffer takes memory that is given back when the buffer is not referred to any more.
func (e *engine) newBuffer(size int) (*buffer, error) {
	buf := &buffer{eng: e, size: size, own: true}
	if size == 0 {
		return buf, nil
	}
	var err error
	if buf.ptr, err = e.alloc(size); err != nil {
		return nil, err
	}
	buf.cleanup = runtime.AddCleanup(buf, func(p cu.DevicePtr) { go e.free(p) }, buf.ptr)
	return buf, nil
}

// elements returns the product of shape, or an error where an axis is negative or the product too large.
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
