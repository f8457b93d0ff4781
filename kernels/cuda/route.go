//go:build cuda && linux

package cuda

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"unsafe"

	"gorgonia.org/cu"

	"latentbeam/kernels/cuda/driver"
)

// route copies data to a device from another one whose memory it cannot read. It uses two blocks of page-locked memory, so that
// one piece leaves the host while the next one arrives.
type route struct {
	from, to *engine
	mu       sync.Mutex
	ring     [2]*routeBlock
}

// routeBlock is a block on a route.
type routeBlock struct {
	*block          // free is recorded when the destination device has read it
	filled cu.Event // on the source device: recorded when the block is filled
}

// staged counts the bytes that went through routes in this process.
var staged atomic.Int64

// Staged returns how many bytes went from device to device through host memory in this process.
func Staged() int64 { return staged.Load() }

// warnStaged logs the warning about copies through host memory once.
var warnStaged sync.Once

// route returns the route from other to e.
func (e *engine) route(other *engine) *route {
	e.routing.Lock()
	defer e.routing.Unlock()
	old := e.routes[other.Index]
	if old != nil && old.from == other {
		return old
	}
	if old != nil { // the other device was opened again
		e.runAsync(old.release)
	}
	warnStaged.Do(func() {
		slog.Warn("GPUs cannot access each other's memory: their exchanges pass through host memory",
			"from", other.name(), "to", e.name())
	})
	r := &route{from: other, to: e}
	e.routes[other.Index] = r
	return r
}

// copyTo copies n bytes to the destination device, after the earlier work of its stream. It returns when the source may be
// changed.
func (r *route) copyTo(to, from cu.DevicePtr, n int, stream cu.Stream) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.to.pinned.RLock() // the blocks belong to its context
	defer r.to.pinned.RUnlock()
	piece := func(i int) (offset cu.DevicePtr, size int) {
		return cu.DevicePtr(i * blockSize), min(blockSize, n-i*blockSize)
	}
	fill := func(i int) error {
		offset, size := piece(i)
		return r.fillBlock(r.ring[i%len(r.ring)], from+offset, size)
	}
	err := r.allocateBlocks()
	if err == nil {
		err = fill(0)
	}
	for i := 0; err == nil && i*blockSize < n; i++ {
		if (i+1)*blockSize < n {
			err = fill(i + 1)
		}
		if err == nil {
			offset, size := piece(i)
			err = r.send(r.ring[i%len(r.ring)], to+offset, size, stream)
		}
	}
	if err != nil { // nothing may be copied into a block that will be freed
		_ = r.from.runAndWait(func() error { return driver.Check("cuStreamSynchronize", r.from.copies.Synchronize()) })
		return err
	}
	staged.Add(int64(n))
	return nil
}

// allocateBlocks makes the blocks at the first use.
func (r *route) allocateBlocks() error {
	for i := range r.ring {
		if r.ring[i] != nil {
			continue
		}
		s := &routeBlock{}
		err := r.from.runAndWait(func() (err error) {
			s.filled, err = cu.MakeEvent(cu.DisableTiming)
			return driver.Check("cuEventCreate", err)
		})
		if err == nil {
			err = r.to.runAndWait(func() (err error) {
				s.block, err = r.to.newBlock()
				return err
			})
		}
		if err != nil {
			return fmt.Errorf("open the route from %s: %w", r.from.name(), err)
		}
		r.ring[i] = s
	}
	return nil
}

// release frees the blocks, on the thread of the destination device. The route is no longer used: the source device was opened
// again, and its events are gone.
func (r *route) release() error {
	for _, s := range r.ring {
		if s != nil {
			if err := s.release(); err != nil {
				return err
			}
		}
	}
	return nil
}

// fillBlock starts to fill a block when the destination device has read its previous content.
func (r *route) fillBlock(s *routeBlock, p cu.DevicePtr, n int) error {
	if s.busy {
		err := r.to.runAndWait(func() error { return driver.Check("cuEventSynchronize", s.free.Synchronize()) })
		if err != nil {
			return err
		}
		s.busy = false
	}
	return r.from.runAndWait(func() error {
		if err := cu.MemcpyDtoHAsync(unsafe.Pointer(&s.mem[0]), p, int64(n), r.from.copies); err != nil {
			return driver.Check("cuMemcpyDtoHAsync", err)
		}
		return driver.Check("cuEventRecord", s.filled.Record(r.from.copies))
	})
}

// send waits until a block is filled and makes the destination device read it.
func (r *route) send(s *routeBlock, p cu.DevicePtr, n int, stream cu.Stream) error {
	err := r.from.runAndWait(func() error { return driver.Check("cuEventSynchronize", s.filled.Synchronize()) })
	if err != nil {
		return err
	}
	return r.to.runAndWait(func() error {
		if err := cu.MemcpyHtoDAsync(p, unsafe.Pointer(&s.mem[0]), int64(n), stream); err != nil {
			return driver.Check("cuMemcpyHtoDAsync", err)
		}
		s.busy = true
		return driver.Check("cuEventRecord", s.free.Record(stream))
	})
}
