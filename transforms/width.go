package transforms

import (
	"sync"

	"latentbeam/internal/plan/layout"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// Most batches get one device each: several batches on a device each need no exchange (data parallel). A
// batch gets more when its elements do not fit one device, when the job says so, and in the tail of a job,
// when devices would be idle: as many as bring the end of the job nearest by the cost model (layout.Assign),
// or, for stages that cannot say what they cost, n/m with m batches left on n devices.

// width returns how many devices a batch is to have, at least and at most. cap bounds it after a failure;
// 0: not.
func (f *StageFn) width(row *schemas.PromptRow, elements, cap int) (least, most int) {
	size := f.engine.Pool.Size()
	least, fixed := f.engine.least(f.step, row)
	least = max(least, f.engine.learned.devices(f.step, row))
	most = least
	others := f.engine.tail.others(f.Index)
	if s, ok := f.step.Stage.(stages.Spreader); ok && !fixed && s.Width(row) == 0 && others < many {
		if cost := f.engine.forecast.cost(f.Index, f.step, row); cost != nil {
			least = f.engine.forecast.assign(f.Index, cost, elements, others, least, size)
			most = least
		} else {
			most = max(least, size/(1+others))
		}
	}
	if cap > 0 {
		least, most = capped(f.step, least, cap), capped(f.step, most, cap)
	}
	return min(least, size), min(most, size)
}

// least returns how many devices a batch of rows like this one needs: what the stage was told, which is
// fixed, or as many as bring the memory of an element below what a device has.
func (e *Engine) least(s *Step, row *schemas.PromptRow) (n int, fixed bool) {
	spreader, ok := s.Stage.(stages.Spreader)
	if !ok {
		return 1, true
	}
	if n := spreader.Width(row); n > 0 {
		return n, true
	}
	if cost := e.forecast.cost(e.index(s), s, row); cost != nil {
		n, err := layout.Least(*cost, 1, layout.Device{Memory: e.Pool.Memory().Limit}, e.Pool.Size())
		if err == nil {
			return n, false
		}
	}
	need, err := s.Need(row, 1)
	if err != nil {
		return 1, false
	}
	n = 1
	for limit := e.Pool.Memory().Limit; n < e.Pool.Size() && shared(need, n) > limit; n++ {
	}
	return n, false
}

// index returns which step s is.
func (e *Engine) index(s *Step) int {
	for i := range e.Steps {
		if e.Steps[i].Name == s.Name {
			return i
		}
	}
	return 0
}

// shared is what each of n devices needs of the memory of a batch: its part, and an eighth of it more for
// what is under way between them.
func shared(need int64, n int) int64 {
	if n <= 1 {
		return need
	}
	part := need / int64(n)
	return part + part/8
}

// tail knows how many batches are still to come, as far as that can be known.
type tail struct {
	mu     sync.Mutex
	passed int         // batches that the bucket has let go
	coming int         // that it is about to let go
	ended  bool        // and no more
	begun  map[int]int // by stage
}

func (t *tail) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.passed, t.coming, t.ended, t.begun = 0, 0, false, nil
}

// pass notes a batch; coming and ended what follows it.
func (t *tail) pass(coming int, ended bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.passed++
	t.coming, t.ended = coming, ended
}

// begin notes that a batch has come to a stage.
func (t *tail) begin(stage int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.begun == nil {
		t.begun = map[int]int{}
	}
	t.begun[stage]++
}

// many is more batches than there are devices.
const many = 1 << 20

// others returns how many batches have yet to come to a stage.
func (t *tail) others(stage int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended {
		return many
	}
	return max(0, t.passed+t.coming-t.begun[stage])
}
