package engine

import (
	"sync"

	"latentbeam/internal/engine/schedule"
	"latentbeam/stages"
)

// passages tracks the batches of this process from the sampler to the publisher. The schedule uses it to sample no more
// batches before these are published.
type passages struct {
	mu sync.Mutex
	of map[*stages.Batch]*tracked
}

// tracked is a batch between the sampler and the publisher.
type tracked struct {
	passage *schedule.Passage
	stage   int // last stage that has accepted it
}

// openPassage records that a stage has accepted a batch, and returns the batch's passage; nil before the sampler.
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
		o = &tracked{&schedule.Passage{}, stage}
		if e.passing.of == nil {
			e.passing.of = map[*stages.Batch]*tracked{}
		}
		e.passing.of[b] = o
	}
	return o.passage
}

// emitted records that a stage has emitted a batch. If neither the next stage nor the publisher has accepted it, the batch
// continues in another process or bundle. Then the sampler does not wait for it.
func (e *Engine) emitted(stage int, b *stages.Batch) {
	e.passing.mu.Lock()
	o := e.passing.of[b]
	e.passing.mu.Unlock()
	if o != nil && o.stage == stage {
		e.closePassage(b)
	}
}

// closePassage records that a batch has reached the publisher or is abandoned.
func (e *Engine) closePassage(b *stages.Batch) {
	e.passing.mu.Lock()
	o := e.passing.of[b]
	delete(e.passing.of, b)
	e.passing.mu.Unlock()
	if o != nil {
		e.Schedule.ClosePassages(o.passage)
	}
}

// clear closes all passages. Bundles that never finished leave some open.
func (p *passages) clear(s *schedule.Schedule) {
	p.mu.Lock()
	all := p.of
	p.of = nil
	p.mu.Unlock()
	for _, o := range all {
		s.ClosePassages(o.passage)
	}
}

// signals wakes waiting stations, so that finished batches of later stations move on at once.
type signals struct {
	mu sync.Mutex
	of map[int]chan struct{} // by waiting stage; closed when a later stage finishes a batch
}

// after returns a channel that is closed when a stage after this one next finishes a batch.
func (b *signals) after(stage int) <-chan struct{} {
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

// notify wakes the stages before this one.
func (b *signals) notify(stage int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, c := range b.of {
		if i < stage {
			close(c)
			delete(b.of, i)
		}
	}
}
