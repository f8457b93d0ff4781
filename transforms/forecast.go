package transforms

import (
	"sync"
	"time"

	"latentbeam/internal/plan/layout"
	"latentbeam/internal/plan/sequence"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// forecast predicts how long batches take, from what the stages say they cost and how long others took. It
// decides nothing but who gets how many devices, so a wrong guess costs time and never bytes.
type forecast struct {
	mu    sync.Mutex
	costs map[costKey]*layout.Stage // nil: the stage cannot say
	pace  map[int]float64           // by stage: seconds of this machine for one of the model's
	busy  map[*lease]bool
}

type costKey struct {
	stage int
	shape schemas.Bucket
}

// lease is a batch at work on some devices.
type lease struct {
	devices int
	until   time.Time // predicted
}

// cost returns what the stage says of rows like row, or nil where it cannot say.
func (f *forecast) cost(index int, s *Step, row *schemas.PromptRow) *layout.Stage {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := costKey{index, schemas.BucketOf(*row)}
	if c, ok := f.costs[key]; ok {
		return c
	}
	var found *layout.Stage
	if c, ok := s.Stage.(stages.Costed); ok {
		if cost, err := c.Cost(row); err == nil {
			cost.Need = func(n int) (int64, error) { return s.Need(row, n) }
			found = &cost
		}
	}
	f.open()
	f.costs[key] = found
	return found
}

// seconds predicts k elements on n devices; 0 where nothing is known.
func (f *forecast) seconds(index int, cost *layout.Stage, k, n int) float64 {
	if cost == nil {
		return 0
	}
	f.mu.Lock()
	pace := f.paceOf(index)
	f.mu.Unlock()
	devices := layout.Ranks(sequence.Equal(n))
	if cost.Split == nil {
		return pace * float64(k) * cost.Work / devices[0].Rate
	}
	step, err := layout.Cheapest(*cost.Split, k, devices)
	if err != nil {
		return 0
	}
	return pace * float64(cost.Split.Steps) * step.Seconds()
}

// begin notes that a batch is at work; done says that it has ended, and whether well.
func (f *forecast) begin(index, devices int, seconds float64) (done func(ok bool)) {
	began := time.Now()
	l := &lease{devices, began.Add(time.Duration(seconds * float64(time.Second)))}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open()
	f.busy[l] = true
	return func(ok bool) {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.busy, l)
		if ok && seconds > 0 {
			f.pace[index] = f.paceOf(index) * time.Since(began).Seconds() / seconds
		}
	}
}

func (f *forecast) open() {
	if f.costs == nil {
		f.costs, f.pace, f.busy = map[costKey]*layout.Stage{}, map[int]float64{}, map[*lease]bool{}
	}
}

func (f *forecast) paceOf(index int) float64 {
	if p, ok := f.pace[index]; ok {
		return p
	}
	return 1
}

// free returns in how many seconds each of n devices is free.
func (f *forecast) free(n int) []float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]float64, n)
	i := 0
	for l := range f.busy {
		for range l.devices {
			if i < n {
				out[i] = max(0, time.Until(l.until).Seconds())
				i++
			}
		}
	}
	return out
}

// assign returns how many devices a batch of k elements takes when others like it are still to come to the
// stage: see layout.Assign.
func (f *forecast) assign(index int, cost *layout.Stage, k, others, least, size int) int {
	alone := f.seconds(index, cost, k, max(1, least))
	set, _ := layout.Assign(layout.Queue{
		Free: f.free(size), Rates: sequence.Equal(size), Left: 1 + others, Least: least,
		Rest:    float64(others) * alone * float64(max(1, least)),
		Seconds: func(_ int, set []int) float64 { return f.seconds(index, cost, k, len(set)) },
	})
	return len(set)
}
