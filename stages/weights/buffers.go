package weights

import (
	"fmt"
	"sync"

	"latentbeam/kernels"
)

// buffers streams blocks through a device that has its own memory, with two buffers that alternate.
type buffers struct {
	refill kernels.Refiller
	inUse  sync.Mutex // held during a forward that uses the buffers

	mu     sync.Mutex
	blocks map[int][]streamedWeight
	pair   [2]swapBuffer
}

// streamedWeight is a weight of a streamed block.
type streamedWeight struct {
	*slot
	from source
}

// swapBuffer is one of the two buffers.
type swapBuffer struct {
	slots map[string]*slot // by kind of block, name inside it, type and shape
	block int              // number of the block in the buffer
	ready []func()         // waits before the block can be used
}

// slot is the device memory for one weight of every second block.
type slot struct {
	t    kernels.Tensor
	host []byte // memory for weights that cannot be used as the file has them
}

func newBuffers(refill kernels.Refiller) *buffers {
	b := &buffers{refill: refill, blocks: map[int][]streamedWeight{}}
	for i := range b.pair {
		b.pair[i].slots = map[string]*slot{}
	}
	return b
}

func (b *buffers) load(w *Weights, name string, shape []int, from source) (kernels.Tensor, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := fmt.Sprint(w.kind, name[w.inside:], from.to, shape)
	slots := b.bufferOf(w.block).slots
	s, ok := slots[key]
	if !ok {
		t, err := w.be.Weights(from.to, shape, from.bytes())
		if err != nil {
			return t, err
		}
		s = &slot{t: t}
		slots[key] = s
	}
	b.blocks[w.block] = append(b.blocks[w.block], streamedWeight{s, from})
	from.discard()
	return s.t, nil
}

// bufferOf returns the buffer for a block.
func (b *buffers) bufferOf(block int) *swapBuffer { return &b.pair[block%2] }

func (b *buffers) begin() (end func()) {
	b.inUse.Lock()
	return b.inUse.Unlock
}

func (b *buffers) enter(block, next int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fill(block)
	if b.blocks[block] != nil {
		b.bufferOf(block).wait()
	}
	if next > 0 && (b.blocks[block] == nil || b.bufferOf(next) != b.bufferOf(block)) {
		b.fill(next)
	}
}

// fill starts to load a block into its buffer, unless it is there or resident. A block whose load failed is not considered
// loaded: the backend keeps its first error, and the device's next backend gets new buffers (resident.refill).
func (b *buffers) fill(block int) {
	buffer := b.bufferOf(block)
	if b.blocks[block] == nil || buffer.block == block {
		return
	}
	buffer.wait() // for a block that was loaded but not used
	buffer.block = block
	for _, w := range b.blocks[block] {
		buffer.ready = append(buffer.ready, b.refill.Refill(w.t, w.data))
	}
}

// data returns the bytes of the weight as they are used.
func (w streamedWeight) data() []byte {
	if w.from.inPlace() {
		return w.from.bytes()
	}
	if n := w.from.size(); len(w.host) < n {
		w.host = make([]byte, n)
	}
	w.from.read(w.host)
	return w.host
}

// wait makes later work on the device wait until the buffer's block is loaded.
func (b *swapBuffer) wait() {
	for _, ready := range b.ready {
		ready()
	}
	b.ready = nil
}

func (b *buffers) leave(block int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.blocks[block] {
		w.from.discard()
	}
}
