package weights

import (
	"os"
	"runtime"
	"sync"
	"sync/atomic"

	"latentbeam/internal/system"
	"latentbeam/kernels"
)

// pages streams blocks on processors. A weight that can be used as it is in its mapped file is read ahead, and its pages are
// released after use. Other weights, which are rounded or split, have pages of their own, which are filled ahead and also
// released. Several forwards can be in different blocks; each block is in memory once. The work on a block is finished when its
// calls return.
type pages struct {
	mark        func(kernels.Tensor) // registers a streamed weight, if the backend needs it
	reading     sync.Mutex           // held while a block is loaded
	outsideHeap *atomic.Int64        // bytes of blocks in memory, reported to system.BesideHeap

	mu     sync.Mutex
	blocks map[int]*block
}

// block is a streamed block.
type block struct {
	weights []pagedWeight
	made    bool          // some weights need pages of their own
	bytes   int64         // size of these pages
	users   int           // number of forwards in the block
	here    chan struct{} // closed when the block is loaded; nil: not loaded and not loading
}

// pagedWeight is a weight of a block.
type pagedWeight struct {
	from source
	own  []byte // the weight's own pages; nil: used as it is in the file
}

func newPages(be kernels.Backend) *pages {
	p := &pages{blocks: map[int]*block{}, mark: be.Capabilities().Passing, outsideHeap: new(atomic.Int64)}
	runtime.AddCleanup(p, func(left *atomic.Int64) { system.BesideHeap(-left.Load()) }, p.outsideHeap) // blocks that were not left
	return p
}

// count records that n bytes of blocks were loaded, or released if n is negative.
func (p *pages) count(n int64) {
	p.outsideHeap.Add(n)
	system.BesideHeap(n)
}

func (p *pages) load(w *Weights, _ string, shape []int, from source) (kernels.Tensor, error) {
	if !from.inPlace() && from.size() < os.Getpagesize() { // too small to release
		defer from.discard()
		return w.be.Weights(from.to, shape, from.bytes())
	}
	one := pagedWeight{from: from}
	data, err := one.fill(p)
	if err != nil {
		return kernels.Tensor{}, err
	}
	t, err := w.be.Weights(from.to, shape, data)
	if err == nil && p.mark != nil {
		p.mark(t)
	}
	one.discard()
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.blocks[w.block]
	if b == nil {
		b = &block{}
		p.blocks[w.block] = b
	}
	b.weights, b.made, b.bytes = append(b.weights, one), b.made || one.own != nil, b.bytes+int64(len(one.own))
	return t, err
}

// fill fills a weight's own pages, if it needs them, and returns its bytes.
func (w *pagedWeight) fill(p *pages) ([]byte, error) {
	if w.from.inPlace() {
		return w.from.bytes(), nil
	}
	mem, unmap, err := system.MapScratch(w.from.size())
	if err != nil {
		return nil, err
	}
	runtime.AddCleanup(p, func(unmap func() error) { _ = unmap() }, unmap)
	w.own = mem
	w.from.read(mem)
	return mem, nil
}

// prefetch starts to load a weight.
func (w pagedWeight) prefetch() {
	if w.own == nil {
		w.from.prefetch()
		return
	}
	w.from.read(w.own)
	w.from.discard()
}

// discard releases a weight's memory.
func (w pagedWeight) discard() {
	w.from.discard()
	if w.own != nil {
		system.ForgetPages(w.own)
	}
}

func (p *pages) begin() (end func()) { return func() {} }

func (p *pages) enter(block, next int) {
	p.mu.Lock()
	b := p.blocks[block]
	if b == nil { // the block is resident
		p.prefetch(p.blocks[next])
		p.mu.Unlock()
		return
	}
	b.users++
	p.prefetch(b)
	p.prefetch(p.blocks[next])
	here := b.here
	p.mu.Unlock()
	if b.made {
		<-here
	}
}

// prefetch starts to load a block, unless it is loaded or loading.
func (p *pages) prefetch(b *block) {
	if b == nil || b.here != nil {
		return
	}
	here := make(chan struct{})
	b.here = here
	p.count(b.bytes)
	go func() {
		p.reading.Lock()
		defer p.reading.Unlock()
		defer close(here)
		for _, w := range b.weights {
			if !b.made && p.released(b, here) {
				return
			}
			w.prefetch()
		}
	}()
}

// released reports whether a loading block was released meanwhile.
func (p *pages) released(b *block, here chan struct{}) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return b.here != here
}

func (p *pages) leave(block int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.blocks[block]
	if b == nil {
		return
	}
	if b.users--; b.users > 0 {
		return
	}
	b.here = nil
	p.count(-b.bytes)
	for _, w := range b.weights {
		w.discard()
	}
}
