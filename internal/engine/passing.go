package engine

import (
	"sync"

	"latentbeam/internal/engine/schedule"
	"latentbeam/stages"
)

// passages follows the batches of this process from the sampler to the publisher, for the schedule: no more are sampled
// before these are through.
type passages struct {
	mu sync.Mutex
	of map[*stages.Batch]*onward
}

// onward is a batch on its way.
type onward struct {
	passage *schedule.Passage
	stage   int // that has taken it last
}

// openPassage notes that a stage has taken a batch, and returns its passage, nil before the sampler.
func (e *Engine) openPassage(stage int, b *stages.Batch) *schedule.Passage {
	e.passing.mu.Lock()
	defer e.passing.mu.Unlock()
	o := e.passing.of[b]
	switch {
	case o != nil:
		o.stage = stage
	case !e.Schedule.Samples(stage):
		return nil
	default:
		o = &onward{&schedule.Passage{}, stage}
		if e.passing.of == nil {
			e.passing.of = map[*stages.Batch]*onward{}
		}
		e.passing.of[b] = o
	}
	return o.passage
}

// gave notes that a stage has emitted a batch. Where neither the next stage nor the publisher has taken it, it goes on
// outside of this process, or in another bundle: the sampler does not wait for it.
func (e *Engine) gave(stage int, b *stages.Batch) {
	e.passing.mu.Lock()
	o := e.passing.of[b]
	e.passing.mu.Unlock()
	if o != nil && o.stage == stage {
		e.through(b)
	}
}

// through notes that a batch is with the publisher, or given up.
func (e *Engine) through(b *stages.Batch) {
	e.passing.mu.Lock()
	o := e.passing.of[b]
	delete(e.passing.of, b)
	e.passing.mu.Unlock()
	if o != nil {
		e.Schedule.ClosePassages(o.passage)
	}
}

// clear gives up all batches, as those of bundles that never came to an end.
func (p *passages) clear(s *schedule.Schedule) {
	p.mu.Lock()
	all := p.of
	p.of = nil
	p.mu.Unlock()
	for _, o := range all {
		s.ClosePassages(o.passage)
	}
}

// bells wake waiting stations, so that finished batches of later stations go on at once.
type bells struct {
	mu sync.Mutex
	of map[int]chan struct{} // by the stage that waits; closed when one behind it has finished a batch
}

// behind returns what is closed when a stage behind this one next finishes a batch.
func (b *bells) behind(stage int) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.of[stage]
	if c == nil {
		c = make(chan struct{})
		if b.of == nil {
			b.of = map[int]chan struct{}{}
		}
		b.of[stage] = c
	}
	return c
}

// ring wakes the stages before this one.
func (b *bells) ring(stage int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, c := range b.of {
		if i < stage {
			close(c)
			delete(b.of, i)
		}
	}
}
