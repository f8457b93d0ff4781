package cpu

import (
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
	"weak"

	"latentbeam/kernels"
)

// A page of a mapped weight that is not in memory stops the thread that touches it, invisibly to the Go
// scheduler. So each weight remembers which one was used after it, at first the one loaded after it, and
// its use asks the system to read that one meanwhile.
const (
	prefetchLeast = 1 << 20         // bytes: smaller weights are read sooner than asked for
	prefetchPause = 2 * time.Second // what was used so recently is still there; asking costs 0.1 ms a weight
)

// weightState is what a weight's buffer has beside its elements.
type weightState struct {
	packedList
	passing atomic.Bool // see Passing
	order   sync.Mutex
	next    weak.Pointer[buffer] // used after it; weak, so that a model that is gone stays gone
	asked   time.Time            // when its own elements were last asked for
}

// Capabilities are to be told of weights that pass: the processor's memory is the system's.
func (b *Backend) Capabilities() kernels.Capabilities {
	return kernels.Capabilities{Passing: b.Passing, Peak: b.Peak, ReLU: true, Int8: true}
}

// Passing says that t, a weight, is one of many of which few are in memory at a time: nothing is kept of it but
// its own elements, wherever they lie.
func (b *Backend) Passing(t kernels.Tensor) {
	if buf, ok := t.Buf.(*buffer); ok && buf.weight != nil {
		buf.weight.passing.Store(true)
	}
}

// after notes that buf was used, or loaded, after the weight before.
func (b *Backend) after(before *buffer, buf *buffer, known bool) {
	if before == nil || before == buf {
		return
	}
	s := before.weight
	s.order.Lock()
	defer s.order.Unlock()
	if known || s.next.Value() == nil {
		s.next = weak.Make(buf)
	}
}

// used notes that buf is used now and asks for the one that comes next.
func (b *Backend) used(buf *buffer) {
	b.after(b.lastUsed, buf, true)
	b.lastUsed = buf
	buf.weight.order.Lock()
	next := buf.weight.next.Value()
	buf.weight.asked = time.Now() // it is in use, nobody need ask for it
	buf.weight.order.Unlock()
	if next == nil || next.size() < prefetchLeast {
		return
	}
	next.weight.order.Lock()
	defer next.weight.order.Unlock()
	if time.Since(next.weight.asked) > prefetchPause {
		next.weight.asked = time.Now()
		prefetches.start.Do(prefetches.run)
		select {
		case prefetches.queue <- next:
		default: // still busy with the last one
		}
	}
}

// prefetches are asked for on one goroutine of the process, since asking may itself wait for the disk.
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

// bytes returns the buffer's elements as they lie in memory.
func (buf *buffer) bytes() []byte {
	if len(buf.f32) > 0 {
		return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(buf.f32))), buf.size())
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(buf.u16))), buf.size())
}
