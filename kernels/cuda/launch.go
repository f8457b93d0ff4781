//go:build cuda && linux

package cuda

// #include "kern/kernels.h"
import "C"

import (
	"fmt"
	"math"
	"sync"
	"unsafe"

	"gorgonia.org/cu"

	"latentbeam/kernels/cuda/driver"
)

// launch is a kernel with its arguments.
type launch struct {
	kernel string
	shape  driver.Shape
	args   unsafe.Pointer // the kernel's structure, which is not changed any more
}

// launch queues a kernel.
func (b *Backend) launch(op, name string, l C.lb_launch, args unsafe.Pointer) {
	if err := checkGrid(l); err != nil {
		b.fail("%s: %w", op, err)
		return
	}
	b.push(command{op: op, launch: launch{name, threadsOf(l), args}})
}

// maxGridYZ is the greatest number of blocks in a grid's second and third dimension on every device (CUDA C++ Programming Guide,
// technical specifications for each compute capability); the limit of the first dimension is math.MaxInt32.
const maxGridYZ = 65535

// checkGrid returns an error if no device accepts the launch: the driver's own error would not say which value is invalid.
func checkGrid(l C.lb_launch) error {
	if l.grid[0] <= math.MaxInt32 && l.grid[1] <= maxGridYZ && l.grid[2] <= maxGridYZ {
		return nil
	}
	return fmt.Errorf("%d x %d x %d blocks, a launch has at most %d x %d x %d: make the batch smaller",
		l.grid[0], l.grid[1], l.grid[2], math.MaxInt32, maxGridYZ, maxGridYZ)
}

var kernelNames sync.Map // string by its constant in C

// kernelName returns a kernel's name; p is a constant of the C headers.
func kernelName(p *C.char) string {
	if name, ok := kernelNames.Load(p); ok {
		return name.(string)
	}
	name := C.GoString(p)
	kernelNames.Store(p, name)
	return name
}

// threadsOf returns a launch in the form that the driver expects.
func threadsOf(l C.lb_launch) driver.Shape {
	return driver.Shape{
		Grid:    [3]uint32{uint32(l.grid[0]), uint32(l.grid[1]), uint32(l.grid[2])},
		Threads: uint32(l.threads),
		Shared:  uint32(l.shared),
	}
}

// launch starts a kernel, on the engine's thread.
func (e *engine) launch(l launch, stream cu.Stream) error {
	k, err := e.kernel(l.kernel)
	if err != nil {
		return err
	}
	if err := k.allow(l.shape.Shared); err != nil {
		return err
	}
	return driver.Launch(k.fn, l.shape, stream, l.args)
}

// smallHost is the greatest size of host memory that is copied to a device without a page-locked block. The driver may read
// such memory before the call returns, or later when the stream reaches the copy: NVIDIA promises neither (CUDA Driver API,
// "API synchronization behavior").
const smallHost = 64 << 10

// send queues a copy of host data to p. data must not be changed any more; it is retained until the stream has been waited for.
func (b *Backend) send(op string, p cu.DevicePtr, data []byte) {
	b.sent = append(b.sent, data)
	b.push(command{op: op, run: func() error {
		err := cu.MemcpyHtoDAsync(p, unsafe.Pointer(&data[0]), int64(len(data)), b.stream)
		return driver.Check("cuMemcpyHtoDAsync", err)
	}})
}

// numbers32 uploads numbers to scratch memory. The caller has marked the arena.
func (b *Backend) numbers32(op string, numbers []int32) (cu.DevicePtr, bool) {
	data := bytesOf(numbers)
	p, err := b.arena.acquire(len(data))
	if err != nil {
		b.fail("%s: %w", op, err)
		return 0, false
	}
	b.store(op, p, data)
	return p, b.err == nil
}

// store copies data to p; data may be changed at once.
func (b *Backend) store(op string, p cu.DevicePtr, data []byte) {
	if len(data) == 0 {
		return
	}
	if len(data) <= smallHost {
		b.send(op, p, append([]byte(nil), data...))
		return
	}
	b.flush()
	if err := b.staging.upload(p, data, b.stream); err != nil {
		b.fail("%s: %w", op, err)
	}
}

// bytesOf returns the memory of numbers. Every machine with CUDA is little-endian.
func bytesOf[E int32 | float32](numbers []E) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(numbers))), len(numbers)*4)
}
