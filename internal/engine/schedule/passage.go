package schedule

import (
	"slices"
	"time"

	"latentbeam/stages"
)

// A device samples no new batch while an earlier sampled batch is still on its way to the output. So a killed process loses
// little work, and the first results appear early.

// Passage tracks one batch from its first sampling step to the output. Its address identifies it, so the struct must not be
// empty.
type Passage struct{ _ byte }

// maxHold is how long a batch waits for earlier batches while no device is busy. After that they count as
// lost, for example because a runner abandoned their bundle.
const maxHold = 5 * time.Second

// samplingStage returns the index of the first sampling step; -1: none.
func samplingStage(steps []stages.Step) int {
	return slices.IndexFunc(steps, func(s stages.Step) bool { return slices.Contains(s.Spec.Params, stages.ParamSteps) })
}

// Samples reports whether the stage is the sampling step, whose batches need a Passage.
func (s *Schedule) Samples(stage int) bool { return stage == s.sampling }

// WithPassage sets the passage of the turn's batch and returns the turn.
func (t *Turn) WithPassage(p *Passage) *Turn {
	t.passage = p
	return t
}

// ClosePassages closes passages whose batches have reached the publisher or are abandoned. Closing a passage twice is allowed.
func (s *Schedule) ClosePassages(passages ...*Passage) {
	if s.turns.closePassages(passages) {
		s.turns.grant(s.Pool)
	}
}

// closePassages removes the passages and reports whether any of them was open.
func (t *turns) closePassages(passages []*Passage) (any bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range passages {
		any = any || t.passages[p]
		delete(t.passages, p)
	}
	return any
}

// mustWait reports whether a turn has to wait until earlier batches are published. There is at most one open passage for each
// device. A batch whose passage is open never waits.
func (t *turns) mustWait(w *Turn, v view) bool {
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
	if len(t.busy) == 0 && w.waited(v.now) > maxHold {
		clear(t.passages)
		return false
	}
	return true
}

// startPassage opens the passage of a turn's batch.
func (t *turns) startPassage(w *Turn) {
	if w.passage == nil {
		return
	}
	if t.passages == nil {
		t.passages = map[*Passage]bool{}
	}
	t.passages[w.passage] = true
}
