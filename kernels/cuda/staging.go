//go:build cuda && linux

package cuda

import (
	"sync"
	"unsafe"

	"gorgonia.org/cu"

	"latentbeam/kernels/cuda/driver"
)

// staging is page-locked host memory for copies to and from a device. Its blocks are filled in turn, so that one is copied
// while the other is filled. It is made at the first use.
type staging struct {
	eng  *engine
	mu   sync.Mutex // held while blocks are filled
	ring [2]*block
	next int
}

// block is one piece. The stream records free when the device has read the block; busy means that free has been queued.
type block struct {
	mem  []byte
	free cu.Event
	busy bool
}

const blockSize = 4 << 20

// nextBlock returns the next block.
func (s *staging) nextBlock() (*block, error) {
	i := s.next
	s.next = (s.next + 1) % len(s.ring)
	if s.ring[i] != nil {
		return s.ring[i], nil
	}
	var made *block
	err := s.eng.runAndWait(func() (err error) {
		made, err = s.eng.newBlock()
		return err
	})
	if err != nil {
		return nil, err
	}
	s.ring[i] = made
	return made, nil
}

// nextFreeBlock returns the next block when the device has read its content. Queued calls must have been flushed.
func (s *staging) nextFreeBlock() (*block, error) {
	b, err := s.nextBlock()
	if err != nil || !b.busy {
		return b, err
	}
	err = s.eng.runAndWait(func() error { return driver.Check("cuEventSynchronize", b.free.Synchronize()) })
	b.busy = err != nil
	return b, err
}

// newBlock makes a block in the memory nearest to the device, on the engine's thread.
func (e *engine) newBlock() (*block, error) {
	event, err := cu.MakeEvent(cu.DisableTiming)
	if err != nil {
		return nil, driver.Check("cuEventCreate", err)
	}
	var mem []byte
	onNode(nodeOf(pciDevices, e.PCI), func() { mem, err = driver.HostAlloc(blockSize) })
	if err != nil {
		return nil, err
	}
	return &block{mem: mem, free: event}, nil
}

// release frees the block, on the engine's thread.
func (b *block) release() error {
	if err := driver.Check("cuEventDestroy", cu.DestroyEvent(&b.free)); err != nil {
		return err
	}
	return driver.HostFree(b.mem)
}

// withBlock runs f, which reads or writes a block. It does not run while the engine ends, because that frees the memory.
func (s *staging) withBlock(f func()) error {
	s.eng.pinned.RLock()
	defer s.eng.pinned.RUnlock()
	if err := s.eng.failure(); err != nil {
		return err
	}
	f()
	return nil
}

// upload copies data to device memory at p on stream, in pieces. It returns when data may be changed.
func (s *staging) upload(p cu.DevicePtr, data []byte, stream cu.Stream) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(data) > 0 {
		b, err := s.nextFreeBlock()
		if err != nil {
			return err
		}
		var n int
		if err := s.withBlock(func() { n = copy(b.mem, data) }); err != nil {
			return err
		}
		to := p
		b.busy = true
		err = s.eng.runAndWait(func() error {
			err := cu.MemcpyHtoDAsync(to, unsafe.Pointer(&b.mem[0]), int64(n), stream)
			if err != nil {
				return driver.Check("cuMemcpyHtoDAsync", err)
			}
			return driver.Check("cuEventRecord", b.free.Record(stream))
		})
		if err != nil {
			return err
		}
		p, data = p+cu.DevicePtr(n), data[n:]
	}
	return nil
}

// download waits for the stream's earlier work and copies device memory at p to data, in pieces: one piece arrives while the
// previous one is copied. All work on the blocks uses this stream.
func (s *staging) download(data []byte, p cu.DevicePtr, stream cu.Stream) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	pieces := (len(data) + blockSize - 1) / blockSize
	piece := func(i int) []byte { return data[i*blockSize : min((i+1)*blockSize, len(data))] }
	var ring [2]*block
	for i := range min(pieces, len(ring)) {
		var err error
		if ring[i], err = s.nextBlock(); err != nil {
			return err
		}
	}
	begun := 0
	for i := range pieces {
		b := ring[i%len(ring)]
		err := s.eng.runAndWait(func() error {
			for k := begun; k < min(pieces, i+len(ring)); k++ {
				if err := ring[k%len(ring)].fill(p+cu.DevicePtr(k*blockSize), len(piece(k)), stream); err != nil {
					return err
				}
			}
			return driver.Check("cuEventSynchronize", b.free.Synchronize())
		})
		if err != nil {
			return err
		}
		begun = i + len(ring)
		if err := s.withBlock(func() { copy(piece(i), b.mem) }); err != nil {
			return err
		}
	}
	for _, b := range s.ring { // the earlier content of the blocks has been read
		if b != nil {
			b.busy = false
		}
	}
	return nil
}

// fill starts to fill the block with n bytes at p, on the engine's thread. free is recorded when they have arrived.
func (b *block) fill(p cu.DevicePtr, n int, stream cu.Stream) error {
	if err := cu.MemcpyDtoHAsync(unsafe.Pointer(&b.mem[0]), p, int64(n), stream); err != nil {
		return driver.Check("cuMemcpyDtoHAsync", err)
	}
	return driver.Check("cuEventRecord", b.free.Record(stream))
}

// release frees all blocks, on the engine's thread.
func (s *staging) release() error {
	for _, b := range s.ring {
		if b == nil {
			continue
		}
		if err := b.release(); err != nil {
			return err
		}
	}
	return nil
}
