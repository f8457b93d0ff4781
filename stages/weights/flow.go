package weights

import (
	"iter"

	"latentbeam/kernels"
	"latentbeam/stages/sequence"
)

// Flow streams the blocks of a model through a memory that is too small for all of them. The first blocks of a rank's run are
// resident. Of the others at most two are in memory: the current one, and the next one, which is loaded meanwhile. With a nil
// Flow the whole model is resident.
type Flow struct {
	first int // first block of the run, from 0
	stay  int // number of resident blocks from there on
	streamer
}

// streamer loads and releases streamed blocks on one kind of device. Blocks are counted from 1.
type streamer interface {
	// load makes a weight of a streamed block. w identifies the block, name is the weight's name in the files.
	load(w *Weights, name string, shape []int, from source) (kernels.Tensor, error)
	// begin is called before a forward runs through the blocks, end after it.
	begin() (end func())
	// enter waits until a block is loaded, if it is streamed, and starts to load the next one (0: none).
	enter(block, next int)
	// leave releases a block's memory when no forward uses it.
	leave(block int)
}

// newFlow returns a flow through be for a model with stay resident blocks.
func newFlow(be kernels.Backend, stay int) *Flow {
	if refill := be.Capabilities().Refiller; refill != nil {
		return &Flow{stay: stay, streamer: newBuffers(refill)}
	}
	return &Flow{stay: stay, streamer: newPages(be)}
}

// stays reports whether a block is resident. Weights that belong to no block (0) always are.
func (f *Flow) stays(block int) bool { return f == nil || block <= f.first+f.stay }

// load makes a weight. w identifies its block.
func (f *Flow) load(w *Weights, name string, shape []int, from source) (kernels.Tensor, error) {
	if f.stays(w.block) {
		if !from.inPlace() {
			defer from.discard()
		}
		return w.be.Weights(from.to, shape, from.bytes())
	}
	return f.streamer.load(w, name, shape, from)
}

// Each iterates over the blocks of a range in order. A block is in memory during its iteration, and the next one is being
// loaded.
func (f *Flow) Each(own sequence.Range) iter.Seq[int] {
	return func(yield func(int) bool) {
		visit := yield
		if f != nil {
			defer f.begin()()
			visit = func(i int) bool {
				f.enter(i+1, f.nextStreamed(i+1, own))
				defer f.leave(i + 1)
				return yield(i)
			}
		}
		for i := own.Lo; i < own.Hi && visit(i); i++ {
		}
	}
}

// nextStreamed returns the block that is streamed next. After the last block of a forward it is the first of the next forward.
func (f *Flow) nextStreamed(block int, own sequence.Range) int {
	first := max(own.Lo, f.first+f.stay) + 1
	switch {
	case first > own.Hi:
		return 0
	case block < first || block == own.Hi:
		return first
	}
	return block + 1
}
