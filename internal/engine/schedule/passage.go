package schedule

import (
	"slices"
	"time"

	"latentbeam/stages"
)

// First things come out first: a device samples no new batch while another one, sampled before, is still on its way to
// the output. So little is lost with the process, and the first results are there early.

// Passage is the way of one batch from its first sampling step to the output. It is known by its address, so it is not
// empty.
type Passage struct{ _ byte }

// holdAtMost is how long a batch waits for others on their way while no device is at work. After that they count as
// lost, as those of a bundle that its runner has given up.
const holdAtMost = 5 * time.Second

// samplingStage returns the index of the first step that samples, -1 where no step does.
func samplingStage(steps []stages.Step) int {
	return slices.IndexFunc(steps, func(s stages.Step) bool { return slices.Contains(s.Spec.Params, stages.ParamSteps) })
}

// Samples reports whether batches of a stage need a Passage.
func (s *Schedule) Samples(stage int) bool { return stage == s.sampling }

// On puts the turn under a passage and returns the turn.
func (t *Turn) On(p *Passage) *Turn {
	t.passage = p
	return t
}

// ClosePassages ends passages: their batches are with the publisher, or are given up. A passage may be left twice.
func (s *Schedule) ClosePassages(passages ...*Passage) {
	if s.turns.closePassages(passages) {
		s.turns.grant(s.Pool)
	}
}

// closePassages reports whether any of the passages had begun.
func (t *turns) closePassages(passages []*Passage) (any bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range passages {
		any = any || t.passages[p]
		delete(t.passages, p)
	}
	return any
}

// held reports whether a turn has to wait until batches before it are published: at most one for each device is on its
// way. A batch that has begun is never held.
func (t *turns) held(w *Turn, v view) bool {
	if w.passage == nil || t.passages[w.passage] {
		return false
	}
	there := 0
	for _, rate := range v.rates {
		if rate > 0 {
			there++
		}
	}
	if len(t.passages) < there {
		return false
	}
	if len(t.busy) == 0 && w.waited(v.now) > holdAtMost {
		clear(t.passages)
		return false
	}
	return true
}

// startPassage notes that the batch of a turn has begun.
func (t *turns) startPassage(w *Turn) {
	if w.passage == nil {
		return
	}
	if t.passages == nil {
		t.passages = map[*Passage]bool{}
	}
	t.passages[w.passage] = true
}
