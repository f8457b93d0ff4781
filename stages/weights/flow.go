package weights

import (
	"iter"

	"latentbeam/kernels"
	"latentbeam/stages/sequence"
)

// Flow lets the blocks of a model pass through a memory that does not hold all of them: of a rank's run of blocks the
// first ones stay, and of the others there are at most two, the one at work and the next, which comes in
// meanwhile. The nil Flow is that of a model that is there whole.
type Flow struct {
	first int // block of the run, from 0
	stay  int // how many blocks from there on stay
	way
}

// way is how blocks come and go on a kind of device. Blocks are counted from 1.
type way interface {
	// load makes a weight of a block that does not stay. w says which one, name is the weight's in the files.
	load(w *Weights, name string, shape []int, from source) (kernels.Tensor, error)
	// begin is called before a forward goes through the blocks, end after.
	begin() (end func())
	// enter waits until a block is there, if it does not stay, and begins to bring the next one, 0: none.
	enter(block, next int)
	// leave gives a block's memory back when nobody is in it.
	leave(block int)
}

// newFlow returns the flow through be of a model of which so many blocks stay.
func newFlow(be kernels.Backend, stay int) *Flow {
	if refill := be.Capabilities().Refiller; refill != nil {
		return &Flow{stay: stay, way: newBuffers(refill)}
	}
	return &Flow{stay: stay, way: newPages(be)}
}

// stays reports whether a block is always there, as what belongs to none is.
func (f *Flow) stays(block int) bool { return f == nil || block <= f.first+f.stay }

// load makes a weight. w says which block it belongs to.
func (f *Flow) load(w *Weights, name string, shape []int, from source) (kernels.Tensor, error) {
	if f.stays(w.block) {
		if !from.inPlace() {
			defer from.discard()
		}
		return w.be.Weights(from.to, shape, from.bytes())
	}
	return f.way.load(w, name, shape, from)
}

// Each goes through the blocks of a range in order, each while it is there, and keeps the next one coming.
func (f *Flow) Each(own sequence.Range) iter.Seq[int] {
	return func(yield func(int) bool) {
		visit := yield
		if f != nil {
			defer f.begin()()
			visit = func(i int) bool {
				f.enter(i+1, f.after(i+1, own))
				defer f.leave(i + 1)
				return yield(i)
			}
		}
		for i := own.Lo; i < own.Hi && visit(i); i++ {
		}
	}
}

// after returns the block that passes next; after that of a forward comes that of the following one.
func (f *Flow) after(block int, own sequence.Range) int {
	first := max(own.Lo, f.first+f.stay) + 1
	switch {
	case first > own.Hi:
		return 0
	case block < first || block == own.Hi:
		return first
	}
	return block + 1
}
