package cpu

import (
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
	"weak"

	"latentbeam/kernels"
)

// If a page of a mapped weight is not in memory, the thread that touches it stops, and the Go scheduler does not see it. So
// each weight records which weight was used after it (at first, which was loaded after it). When a weight is used, its backend
// asks the system to read the next one in advance.
const (
	minPrefetch   = 1 << 20         // bytes: smaller weights are read faster than requested
	prefetchPause = 2 * time.Second // a weight used so recently is still in memory; a request costs 0.1 ms per weight
)

// weightState is the additional state of a weight's buffer.
type weightState struct {
	packedList
	passing    atomic.Bool // set by Backend.Passing
	mu         sync.Mutex
	nextWeight weak.Pointer[buffer] // used after this one; weak, so that a discarded model can be freed
	requested  time.Time            // when its own elements were last requested
}

// Capabilities has no Refiller and no Release, because the weights are in the memory of the system.
func (b *Backend) Capabilities() kernels.Capabilities {
	return kernels.Capabilities{Passing: b.Passing, Peak: b.Peak, ReLU: true, Int8: true}
}

// Passing marks t as a weight that is in memory only for a short time: no packed copy of it is cached.
func (b *Backend) Passing(t kernels.Tensor) {
	if buf, ok := t.Buf.(*buffer); ok && buf.weight != nil {
		buf.weight.passing.Store(true)
	}
}

// recordNext records that buf was used after the weight before. Without used it was only loaded after it, which counts until
// a use is recorded.
func (b *Backend) recordNext(before *buffer, buf *buffer, used bool) {
	if before == nil || before == buf {
		return
	}
	s := before.weight
	s.mu.Lock()
	defer s.mu.Unlock()
	if used || s.nextWeight.Value() == nil {
		s.nextWeight = weak.Make(buf)
	}
}

// recordUse records that buf is used now and requests the weight that comes next.
func (b *Backend) recordUse(buf *buffer) {
	b.recordNext(b.lastUsed, buf, true)
	b.lastUsed = buf
	buf.weight.mu.Lock()
	next := buf.weight.nextWeight.Value()
	buf.weight.requested = time.Now() // it is in use, so it need not be requested
	buf.weight.mu.Unlock()
	if next == nil || next.size() < minPrefetch {
		return
	}
	next.weight.mu.Lock()
	defer next.weight.mu.Unlock()
	if time.Since(next.weight.requested) > prefetchPause {
		next.weight.requested = time.Now()
		prefetches.start.Do(prefetches.run)
		select {
		case prefetches.queue <- next:
		default: // still busy with the previous request
		}
	}
}

// One goroutine of the process makes the requests, because a request may itself wait for the disk.
var prefetches = prefetcher{queue: make(chan *buffer, 1)}

type prefetcher struct {
	start sync.Once
	queue chan *buffer
}

func (p *prefetcher) run() {
	go func() {
		for buf := range p.queue {
			willNeed(buf.bytes())
		}
	}()
}

// size returns the bytes of the buffer's elements.
func (buf *buffer) size() int { return len(buf.f32)*4 + len(buf.u16)*2 }

// bytes returns the memory of the buffer's elements.
func (buf *buffer) bytes() []byte {
	if len(buf.f32) > 0 {
		return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(buf.f32))), buf.size())
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(buf.u16))), buf.size())
}
