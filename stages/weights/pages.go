package weights

import (
	"os"
	"runtime"
	"sync"
	"sync/atomic"

	"latentbeam/internal/system"
	"latentbeam/kernels"
)

// pages is how blocks pass through a processor's memory. Weights that are used as they lie in their mapped file are
// read ahead there and given back to the system behind the work. Others, which are rounded or cut out of the file's,
// have pages of their own that are filled ahead, and given back too. Several forwards can be in different blocks,
// each of which is there once. The work on a block is done when its calls return.
type pages struct {
	mark    func(kernels.Tensor) // of a weight that passes, where the backend wants to know
	reading sync.Mutex           // held while a block is brought
	beside  *atomic.Int64        // bytes of blocks that are there, as system.BesideHeap knows them

	mu     sync.Mutex
	blocks map[int]*paged
}

// paged is a block.
type paged struct {
	weights []passing
	made    bool          // not all are used as they lie
	bytes   int64         // of the pages that they are made in
	users   int           // how many forwards are in it
	here    chan struct{} // closed when it is there; nil: it is not, and nobody brings it
}

// passing is a weight of a block.
type passing struct {
	from source
	own  []byte // pages that it is made in; nil: used as it lies
}

func newPages(be kernels.Backend) *pages {
	p := &pages{blocks: map[int]*paged{}, mark: be.Capabilities().Passing, beside: new(atomic.Int64)}
	runtime.AddCleanup(p, func(left *atomic.Int64) { system.BesideHeap(-left.Load()) }, p.beside) // blocks that nobody left
	return p
}

// count says that n bytes of blocks came, or went.
func (p *pages) count(n int64) {
	p.beside.Add(n)
	system.BesideHeap(n)
}

func (p *pages) load(w *Weights, _ string, shape []int, from source) (kernels.Tensor, error) {
	if !from.inPlace() && from.size() < os.Getpagesize() { // there is nothing to give back
		defer from.discard()
		return w.be.Weights(from.to, shape, from.bytes())
	}
	one := passing{from: from}
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
		b = &paged{}
		p.blocks[w.block] = b
	}
	b.weights, b.made, b.bytes = append(b.weights, one), b.made || one.own != nil, b.bytes+int64(len(one.own))
	return t, err
}

// fill gives a weight pages of its own, where it needs them, and returns its bytes.
func (w *passing) fill(p *pages) ([]byte, error) {
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

// prefetch lets a weight be there, or come.
func (w passing) prefetch() {
	if w.own == nil {
		w.from.ahead()
		return
	}
	w.from.read(w.own)
	w.from.discard()
}

// discard gives its memory back.
func (w passing) discard() {
	w.from.discard()
	if w.own != nil {
		system.ForgetPages(w.own)
	}
}

func (p *pages) begin() (end func()) { return func() {} }

func (p *pages) enter(block, next int) {
	p.mu.Lock()
	b := p.blocks[block]
	if b == nil { // it stays
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

// prefetch begins to bring a block, unless it is there or on its way.
func (p *pages) prefetch(b *paged) {
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
			if !b.made && p.gone(b, here) {
				return
			}
			w.prefetch()
		}
	}()
}

// gone reports whether a block that is being brought was given back meanwhile.
func (p *pages) gone(b *paged, here chan struct{}) bool {
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
