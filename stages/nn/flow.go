package nn

import (
	"errors"
	"fmt"
	"iter"
	"sync"
	"unsafe"

	"latentbeam/internal/mapfile"
	"latentbeam/internal/plan/weights"
	"latentbeam/kernels"
)

// Flow lets the blocks of a model pass through a memory that does not hold all of them: the first ones stay, and of
// the others there are at most two, the one at work and the next, which comes in meanwhile. The nil Flow is that
// of a model that is there whole.
//
// A device with a memory of its own has two buffers that take turns. A processor reads the mapped file in place:
// the next block is read ahead, and the one before is given back to the system.
type Flow struct {
	stay   int  // blocks from the first on that stay
	copied bool // a weight was loaded that cannot pass
	refill kernels.Refiller
	mark   func(kernels.Tensor) // of a weight that passes, where the backend wants to know

	mu      sync.Mutex
	blocks  map[int][]passing
	users   map[int]int   // how many forwards are in a block
	reading chan struct{} // held while a block is read ahead
	buffers [2]buffer     // of a device
	walking sync.Mutex    // held by the forward that the buffers serve
}

// passing is a weight of a block that does not stay.
type passing struct {
	t    kernels.Tensor
	data []byte // in the mapped file, or what is brought to the device
	file bool   // mapped
}

// buffer is one of the two that blocks pass through.
type buffer struct {
	weights map[string]kernels.Tensor // by kind of block, name inside it, type and shape
	holds   int                       // block, from 1
	ready   []func()                  // to be called before it is used
}

// ErrCopied is why weights cannot pass through a processor's memory.
var ErrCopied = errors.New("blocks that pass through memory are used as they lie in their file: it must have the " +
	"dtype of the stage, and not be cut by tp_size; raise resources.memory, or `latentbeam convert --dtype` it")

// newFlow returns the flow through be of a model of which blocks from stay on do not stay.
func newFlow(be kernels.Backend, stay int) *Flow {
	f := &Flow{stay: stay, blocks: map[int][]passing{}, users: map[int]int{}, reading: make(chan struct{}, 1)}
	f.refill, _ = kernels.As[kernels.Refiller](be)
	if p, ok := kernels.As[interface{ Passing(kernels.Tensor) }](be); ok {
		f.mark = p.Passing
	}
	for i := range f.buffers {
		f.buffers[i].weights = map[string]kernels.Tensor{}
	}
	return f
}

// load makes a weight of data. w says which block it belongs to.
func (f *Flow) load(w *Weights, name string, dt kernels.DType, shape []int, data []byte) (kernels.Tensor, error) {
	if f == nil || w.block <= f.stay {
		return w.be.Weights(dt, shape, data)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	p := passing{data: data, file: w.mapped[name] && w.lies(name, data)}
	if f.refill == nil {
		if !p.file && w.mapped[name] {
			f.copied = true
			return w.be.Weights(dt, shape, data)
		}
		t, err := w.be.Weights(dt, shape, data)
		if p.t = t; err == nil && f.mark != nil {
			f.mark(t)
		}
		f.blocks[w.block] = append(f.blocks[w.block], p)
		p.forget()
		return t, err
	}
	b := f.bufferOf(w.block)
	key := fmt.Sprint(w.kind, name[w.inside:], dt, shape)
	t, ok := b.weights[key]
	if !ok {
		var err error
		if t, err = w.be.Weights(dt, shape, data); err != nil {
			return t, err
		}
		b.weights[key] = t
	}
	p.t = t
	f.blocks[w.block] = append(f.blocks[w.block], p)
	p.forget()
	return t, nil
}

// lies reports whether data is a part of the named tensor as it lies in its file.
func (w *Weights) lies(name string, data []byte) bool {
	whole := w.found[name].Data
	if len(data) == 0 || len(whole) == 0 {
		return false
	}
	first, at := uintptr(unsafe.Pointer(&whole[0])), uintptr(unsafe.Pointer(&data[0]))
	return at >= first && at < first+uintptr(len(whole))
}

func (p passing) forget() {
	if p.file {
		mapfile.Forget(p.data)
	}
}

// bufferOf returns the buffer that a block passes through.
func (f *Flow) bufferOf(block int) *buffer { return &f.buffers[(block-f.stay)%2] }

// Each goes through the blocks of a range in order, each while it is there, and keeps the next one coming.
func (f *Flow) Each(own weights.Range) iter.Seq[int] {
	return func(yield func(int) bool) {
		if f != nil && f.refill != nil {
			f.walking.Lock()
			defer f.walking.Unlock()
		}
		for i := own.Lo; i < own.Hi; i++ {
			f.enter(i+1, f.after(i+1, own))
			more := yield(i)
			f.leave(i + 1)
			if !more {
				return
			}
		}
	}
}

// after returns the block that passes next, after that of a forward comes that of the following one.
func (f *Flow) after(block int, own weights.Range) int {
	if f == nil {
		return 0
	}
	first := max(own.Lo, f.stay) + 1
	switch {
	case first > own.Hi:
		return 0
	case block < first || block == own.Hi:
		return first
	}
	return block + 1
}

// enter makes a block ready to be used and begins to bring the next one.
func (f *Flow) enter(block, next int) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.users[block]++
	if f.refill != nil {
		f.fill(block)
		if b := f.bufferOf(max(block, f.stay+1)); block > f.stay {
			for _, ready := range b.ready {
				ready()
			}
			b.ready = nil
		}
		if next > 0 && (block <= f.stay || f.bufferOf(next) != f.bufferOf(block)) {
			f.fill(next)
		}
		return
	}
	ahead := f.blocks[next]
	select {
	case f.reading <- struct{}{}:
		go func() {
			for _, p := range ahead {
				if p.file {
					mapfile.Ahead(p.data)
				}
			}
			<-f.reading
		}()
	default: // still at the one before
	}
}

// fill begins to bring a block to its buffer, unless it is there.
func (f *Flow) fill(block int) {
	b := f.bufferOf(max(block, f.stay+1))
	if block <= f.stay || b.holds == block {
		return
	}
	b.holds, b.ready = block, nil
	for _, p := range f.blocks[block] {
		b.ready = append(b.ready, f.refill.Refill(p.t, p.data))
	}
}

// leave gives a block's memory back when nobody is in it.
func (f *Flow) leave(block int) {
	if f == nil || block <= f.stay {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.users[block]--; f.users[block] > 0 {
		return
	}
	for _, p := range f.blocks[block] {
		p.forget()
	}
}
