package engine

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"latentbeam/internal/watch/runfiles"
	"latentbeam/kernels"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// Progress counts what happens to the rows of a run. It is safe for concurrent use.
type Progress struct {
	Seen    atomic.Int64 // read from the input
	Done    atomic.Int64 // computed and published in this run
	Skipped atomic.Int64 // already settled in the ledger
	Failed  atomic.Int64 // recorded as failures in this run
	Shared  atomic.Int64 // equal to a row in flight
	Dropped atomic.Int64 // dropped by the job's own rules
	Scored  atomic.Int64 // finished earlier, measured in this run
	Workers atomic.Int64 // processes that have started to compute this run's rows

	// TooMany reports whether this number of failures ends the job; nil: never.
	TooMany func(seen, failed int64) bool

	mu    sync.Mutex
	first string // first failure of a measure
	count int64  // rows with a failed measure
	order []string
	busy  map[string]time.Duration
	usage map[string]*kernels.Usage
}

// Settle counts settled rows and returns a fatal error once too many have failed. It compares failures with the
// rows read so far, because bad rows fail at once and good ones finish late.
func (p *Progress) Settle(done, failed int64) error {
	p.Done.Add(done)
	f, seen := p.Failed.Add(failed), p.Seen.Load()
	if failed == 0 || p.TooMany == nil || !p.TooMany(seen, f) {
		return nil
	}
	return fault.Fatal(fmt.Errorf("stop: %d of the first %d rows failed, more than on_error.stop_after allows: "+
		"see the failures table, mend the cause or allow more, and run again", f, seen))
}

// blind counts a row for which a measure of this run failed.
func (p *Progress) blind(e *stages.Element) {
	if len(e.LookFailed) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.count++; p.count == 1 {
		p.first = fmt.Sprintf("%s: %s", idOf(e), e.FirstLookFailure())
	}
}

// Blind returns the number of rows for which a measure of this run failed, and the first failure.
func (p *Progress) Blind() (rows int64, first string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count, p.first
}

// Spent adds d to the time that a stage kept devices busy.
func (p *Progress) Spent(stage string, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.busy == nil {
		p.busy = map[string]time.Duration{}
	}
	if _, ok := p.busy[stage]; !ok {
		p.order = append(p.order, stage)
	}
	p.busy[stage] += d
}

// Computed adds the work that devices did for a stage.
func (p *Progress) Computed(stage string, u kernels.Usage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.usage == nil {
		p.usage = map[string]*kernels.Usage{}
	}
	if p.usage[stage] == nil {
		p.usage[stage] = &kernels.Usage{}
	}
	p.usage[stage].Add(u)
}

// StageTime is the time that a stage has used so far, and how its time on devices divides into kernels.
type StageTime struct {
	Stage   string        `json:"stage"`
	Busy    time.Duration `json:"busy_ns"`
	Rows    int64         `json:"rows,omitempty"` // rows that have left the stage, failed ones included
	Kernels []KernelTime  `json:"kernels,omitempty"`
}

// Beside returns the work that the host did while devices computed, such as decoding.
func (s *StageTime) Beside() (work []KernelTime) {
	for _, k := range s.Kernels {
		if k.Beside {
			work = append(work, k)
		}
	}
	return work
}

// Add adds work of another process.
func (s *StageTime) Add(w runfiles.HostWork) {
	i := slices.IndexFunc(s.Kernels, func(k KernelTime) bool { return k.Kernel == w.Name })
	if i < 0 {
		i = len(s.Kernels)
		s.Kernels = append(s.Kernels, KernelTime{Kernel: w.Name, Beside: true})
	}
	s.Kernels[i].Busy += time.Duration(w.Busy * float64(time.Second))
}

// Facts returns the time of every stage in the form that the output stores.
func (p *Progress) Facts() (all []runfiles.StageTotals) {
	for _, s := range p.Stages() {
		one := runfiles.StageTotals{Stage: s.Stage, Busy: s.Busy.Seconds()}
		for _, k := range s.Beside() {
			one.Beside = append(one.Beside, runfiles.HostWork{Name: k.Kernel, Busy: k.Busy.Seconds()})
		}
		all = append(all, one)
	}
	return all
}

// Stages returns the time of every stage in the order of first use.
func (p *Progress) Stages() []StageTime {
	p.mu.Lock()
	defer p.mu.Unlock()
	times := make([]StageTime, len(p.order))
	for i, s := range p.order {
		times[i] = StageTime{Stage: s, Busy: p.busy[s]}
		if u := p.usage[s]; u != nil {
			times[i].Kernels = kernelTimes(*u)
		}
	}
	return times
}
