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
	args   unsafe.Pointer // to its structure, which is not changed any more
}

// launch puts a kernel in the queue.
func (b *Backend) launch(op, name string, l C.lb_launch, args unsafe.Pointer) {
	if err := fits(l); err != nil {
		b.fail("%s: %w", op, err)
		return
	}
	b.push(command{op: op, launch: launch{name, threadsOf(l), args}})
}

// mostDown is how many blocks a grid may have on its second and third axis, on every device (CUDA C++ Programming
// Guide, technical specifications for each compute capability); on the first one they are math.MaxInt32.
const mostDown = 65535

// fits refuses a launch that no device takes: the driver would answer that a value is invalid, not which.
func fits(l C.lb_launch) error {
	if l.grid[0] <= math.MaxInt32 && l.grid[1] <= mostDown && l.grid[2] <= mostDown {
		return nil
	}
	return fmt.Errorf("%d x %d x %d blocks, a launch has at most %d x %d x %d: cut the batch",
		l.grid[0], l.grid[1], l.grid[2], math.MaxInt32, mostDown, mostDown)
}

var kernelNames sync.Map // string by its constant in C

// kernelName is a kernel's name as Go has it; p is a constant of the headers.
func kernelName(p *C.char) string {
	if name, ok := kernelNames.Load(p); ok {
		return name.(string)
	}
	name := C.GoString(p)
	kernelNames.Store(p, name)
	return name
}

// threadsOf is a launch as the driver wants it.
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

// smallHost is up to which size host memory goes to a device without a page-locked block of ours in between. The driver
// may have read it when the call returns, or read it when the stream comes to it: NVIDIA promises neither (CUDA Driver
// API, "API synchronization behavior").
const smallHost = 64 << 10

// send puts a copy of host data to p in the queue. data must not be changed any more; it is kept until the stream was
// waited for.
func (b *Backend) send(op string, p cu.DevicePtr, data []byte) {
	b.sent = append(b.sent, data)
	b.push(command{op: op, run: func() error {
		err := cu.MemcpyHtoDAsync(p, unsafe.Pointer(&data[0]), int64(len(data)), b.stream)
		return driver.Check("cuMemcpyHtoDAsync", err)
	}})
}

// numbers32 uploads numbers to scratch memory, which the caller has marked.
func (b *Backend) numbers32(op string, numbers []int32) (cu.DevicePtr, bool) {
	data := bytesOf(numbers)
	p, err := b.arena.take(len(data))
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
	if err := b.staging.up(p, data, b.stream); err != nil {
		b.fail("%s: %w", op, err)
	}
}

// bytesOf returns the memory of numbers. Every machine with CUDA is little-endian.
func bytesOf[E int32 | float32](numbers []E) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(numbers))), len(numbers)*4)
}
