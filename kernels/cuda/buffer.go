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

// maxElements limits the size of a tensor, so that a wrong shape is an error and not an attempt to allocate all memory.
const maxElements = 1 << 36

// buffer is what Tensor.Buf points to: device memory of one allocation or one weight.
type buffer struct {
	eng      *engine
	ptr      cu.DevicePtr
	size     int // bytes
	freed    bool
	separate bool // not part of an arena: the memory is freed with the buffer

	cleanup runtime.Cleanup // if separate is set

	weight bool // its content does not change any more
	mu     sync.Mutex
	packed map[packedKey]*operand // for a weight: its packed forms, see Conv
}

// alloc allocates device memory; it may be called from any goroutine.
func (e *engine) alloc(size int) (p cu.DevicePtr, err error) {
	err = e.runAndWait(func() (err error) {
		p, err = cu.MemAlloc(int64(size))
		return driver.Check("cuMemAlloc", err)
	})
	if err != nil {
		return 0, fmt.Errorf("%d bytes on %s: %w", size, e.name(), err)
	}
	return p, nil
}

// free frees memory once the device has completed the work enqueued so far. If the engine has ended, there is nothing to free.
func (e *engine) free(p cu.DevicePtr) {
	e.runAsync(func() error {
		if err := cu.Synchronize(); err != nil {
			return driver.Check("cuCtxSynchronize", err)
		}
		return driver.Check("cuMemFree", cu.MemFree(p))
	})
}

// newBuffer allocates memory that is freed when nothing refers to the buffer any more.
func (e *engine) newBuffer(size int) (*buffer, error) {
	buf := &buffer{eng: e, size: size, separate: true}
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
