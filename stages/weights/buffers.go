package weights

import (
	"fmt"
	"sync"

	"latentbeam/kernels"
)

// buffers is how blocks pass through a device with a memory of its own: there are two buffers that take turns.
type buffers struct {
	refill  kernels.Refiller
	walking sync.Mutex // held by the forward that the buffers serve

	mu     sync.Mutex
	blocks map[int][]brought
	turns  [2]swapBuffer
}

// brought is a weight of a block that passes.
type brought struct {
	*slot
	from source
}

// swapBuffer is one of the two.
type swapBuffer struct {
	slots map[string]*slot // by kind of block, name inside it, type and shape
	holds int              // block
	ready []func()         // to be called before it is used
}

// slot is where a weight of every second block goes.
type slot struct {
	t    kernels.Tensor
	host []byte // where weights are made that do not lie in their file as they are used
}

func newBuffers(refill kernels.Refiller) *buffers {
	b := &buffers{refill: refill, blocks: map[int][]brought{}}
	for i := range b.turns {
		b.turns[i].slots = map[string]*slot{}
	}
	return b
}

func (b *buffers) load(w *Weights, name string, shape []int, from source) (kernels.Tensor, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := fmt.Sprint(w.kind, name[w.inside:], from.to, shape)
	slots := b.of(w.block).slots
	s, ok := slots[key]
	if !ok {
		t, err := w.be.Weights(from.to, shape, from.bytes())
		if err != nil {
			return t, err
		}
		s = &slot{t: t}
		slots[key] = s
	}
	b.blocks[w.block] = append(b.blocks[w.block], brought{s, from})
	from.discard()
	return s.t, nil
}

// of returns the buffer that a block passes through.
func (b *buffers) of(block int) *swapBuffer { return &b.turns[block%2] }

func (b *buffers) begin() (end func()) {
	b.walking.Lock()
	return b.walking.Unlock
}

func (b *buffers) enter(block, next int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fill(block)
	if b.blocks[block] != nil {
		b.of(block).wait()
	}
	if next > 0 && (b.blocks[block] == nil || b.of(next) != b.of(block)) {
		b.fill(next)
	}
}

// fill begins to bring a block to its buffer, unless it is there or stays. One that cannot be brought is not taken for
// there later: a backend keeps its first error, and the next one of the device has buffers of its own (resident.refill).
func (b *buffers) fill(block int) {
	turn := b.of(block)
	if b.blocks[block] == nil || turn.holds == block {
		return
	}
	turn.wait() // for a block that nobody came for
	turn.holds = block
	for _, w := range b.blocks[block] {
		turn.ready = append(turn.ready, b.refill.Refill(w.t, w.data))
	}
}

// data returns the weight as it is used.
func (w brought) data() []byte {
	if w.from.inPlace() {
		return w.from.bytes()
	}
	if n := w.from.size(); len(w.host) < n {
		w.host = make([]byte, n)
	}
	w.from.read(w.host)
	return w.host
}

// wait lets what is enqueued from now on wait for the block that the buffer holds.
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
