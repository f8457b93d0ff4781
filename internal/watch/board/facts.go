package board

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"latentbeam/internal/watch/runfiles"
)

// Counts returns the counts so far.
func (b *Board) Counts() Counts {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all()
}

// Facts returns the current facts of the process. The caller sets the identity and the state of the process.
func (b *Board) Facts() runfiles.Facts {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	c := b.all()
	f := runfiles.Facts{At: now.UTC().Round(0), Started: b.started.UTC().Round(0), First: c.First,
		Rows: runfiles.Rows{Done: c.Done, Failed: c.Failed, Skipped: c.Skipped, Shared: c.Shared, Bad: c.Bad}}
	for x := range b.batches {
		f.Batches = append(f.Batches, runfiles.Batch{Stage: x.stage, Count: x.count, Rows: x.rows, Shape: x.shape, Step: x.step,
			Of: x.of, Note: x.note, Device: strings.Join(x.devices, " "), Since: x.last.UTC().Round(0), Begun: x.started.UTC().Round(0)})
	}
	slices.SortFunc(f.Batches, func(a, b runfiles.Batch) int {
		return cmp.Or(cmp.Compare(b.Device, a.Device), a.Begun.Compare(b.Begun), cmp.Compare(a.Stage, b.Stage))
	})
	for _, d := range b.devices {
		one := runfiles.DeviceState{Name: d.name, Since: d.since.UTC().Round(0), Busy: d.busy.Seconds()}
		for x := range d.works {
			one.Stage = x.stage
		}
		if len(d.works) > 0 {
			one.Busy += now.Sub(d.since).Seconds()
		}
		f.Devices = append(f.Devices, one)
	}
	for _, s := range b.shapes {
		f.Rows.Total += s.Rows
		f.Rates = append(f.Rates, runfiles.Rate{Shape: s.Name, Total: s.Rows, Settled: s.settled})
	}
	b.predict(&f, now)
	for _, name := range b.stages {
		one := runfiles.StageTotals{Stage: name}
		for at, c := range b.cells {
			if at.stage == name {
				one.Rows, one.Batches, one.Busy = one.Rows+c.rows, one.Batches+c.batches, one.Busy+c.seconds
			}
		}
		f.Stages = append(f.Stages, one)
	}
	return f
}

// predict sets the rates and remaining times in f. The caller holds b.mu.
//
// The cost of a row of a shape in a stage is taken from the first of these sources that exists:
//  1. finished rows of the shape;
//  2. the finished steps of a batch on devices;
//  3. rows of another shape, scaled by the ratio of the planned costs, or else of the weights;
//  4. the plan, scaled by the ratio of measured to planned costs in other stages; at least what a batch has taken that is still on
//     devices.
//
// All devices share the remaining work, but a batch that has begun takes its own time through all stages: at the end of a run, other
// devices have nothing to do meanwhile. Publishing runs at the same time; if it is slower, it determines the remaining time. Without a
// plan, the remaining time is not known before a row is published or a step is done, because stages that have not run would cost
// nothing. It is not known either while a batch is overdue, or in a stage of unknown cost.
func (b *Board) predict(f *runfiles.Facts, now time.Time) {
	devices := float64(max(1, len(b.devices)))
	known := (b.hasProgress() || b.isPlanned()) && !b.overdue(now)
	costs := map[cell]float64{}
	for i, s := range b.shapes {
		var each, left float64 // device seconds
		measured := false
		for _, stage := range b.stages {
			c, how := b.cost(stage, s, now)
			if how == unknown && b.hasRun(stage) {
				known = false
			}
			measured = measured || how == byRows
			passed := int64(0)
			if x := b.cells[cell{stage, s.Name}]; x != nil {
				passed = x.rows
			}
			each += c
			costs[cell{stage, s.Name}] = c
			left += c * float64(max(0, min(s.Rows-s.settled, s.Rows-passed)))
			left -= min(left, b.workInProgress(stage, s.Name, c, now))
		}
		if s.settled >= s.Rows {
			left = 0
		} else if each == 0 {
			known = false
		}
		if measured && each > 0 {
			f.Rates[i].PerMinute = 60 * devices / each
		}
		f.Rates[i].ETA = left / devices
		f.ETA += left / devices
	}
	if !known {
		f.ETA = 0
		return
	}
	for x := range b.batches {
		f.ETA = max(f.ETA, b.through(x, costs, now))
	}
	if p := b.publish; p.rows > 0 {
		f.ETA = max(f.ETA, p.seconds/float64(p.rows)*float64(f.Rows.Total-f.Rows.Done-f.Rows.Failed))
	}
}

// through returns the seconds until a batch has passed all stages. The caller holds b.mu.
func (b *Board) through(x *Batch, costs map[cell]float64, now time.Time) float64 {
	sum := costs[cell{x.stage, x.shape}] * float64(x.count)
	if n := len(x.devices); n > 0 {
		sum = max(0, sum/float64(n)-now.Sub(x.started).Seconds())
	}
	for _, stage := range b.stages[slices.Index(b.stages, x.stage)+1:] {
		sum += costs[cell{stage, x.shape}] * float64(x.count)
	}
	return sum
}

// isPlanned reports whether batches are on devices, all in stages with a planned or measured cost. The caller holds b.mu.
func (b *Board) isPlanned() bool {
	works := false
	for x := range b.batches {
		if x.devices == nil {
			continue
		}
		if b.foreseen[cell{x.stage, x.shape}] == 0 && b.cells[cell{x.stage, x.shape}] == nil {
			return false
		}
		works = true
	}
	return works
}

// hasProgress reports whether a row was published or a step was done. The caller holds b.mu.
func (b *Board) hasProgress() bool {
	for x := range b.batches {
		if x.step > 0 {
			return true
		}
	}
	return b.counts.Done+b.counts.Failed > 0
}

// spent returns the device seconds of a batch on devices so far.
func (x *Batch) spent(now time.Time) float64 {
	return now.Sub(x.started).Seconds() * float64(len(x.devices))
}

// A batch is overdue after overdueFactor times its expected cost, but not before shortestOverdue.
const (
	overdueFactor   = 3
	shortestOverdue = 10 * time.Second
)

// overdue reports whether a batch on devices takes far longer than earlier rows did. The caller holds b.mu.
func (b *Board) overdue(now time.Time) bool {
	for x := range b.batches {
		c := b.cells[cell{x.stage, x.shape}]
		if x.devices == nil || c == nil || c.rows == 0 {
			continue
		}
		expected := c.seconds / float64(c.rows) * float64(x.count)
		if now.Sub(x.started) > shortestOverdue && x.spent(now) > overdueFactor*expected {
			return true
		}
	}
	return false
}

// source is the origin of a cost.
type source int

const (
	unknown source = iota
	byPlan
	byWeight
	bySteps
	byRows
)

// cost returns the cost of one row of a shape in a stage, in device seconds. The caller holds b.mu.
func (b *Board) cost(stage string, s *shape, now time.Time) (float64, source) {
	if c, how := b.measured(stage, s.Name, now); how != unknown {
		return c, how
	}
	planned := b.foreseen[cell{stage, s.Name}]
	for _, other := range b.shapes {
		ratio := 0.0
		if elsewhere := b.foreseen[cell{stage, other.Name}]; planned > 0 && elsewhere > 0 {
			ratio = planned / elsewhere
		} else if other.Weight > 0 {
			ratio = s.Weight / other.Weight
		}
		if c, how := b.measured(stage, other.Name, now); other != s && how != unknown && ratio > 0 {
			return ratio * c, byWeight
		}
	}
	if planned > 0 {
		c := planned * b.slowdown(now)
		for x := range b.batches {
			if x.stage == stage && x.shape == s.Name && x.devices != nil {
				c = max(c, x.spent(now)/float64(max(1, x.count)))
			}
		}
		return c, byPlan
	}
	return 0, unknown
}

// measured returns the measured cost of one row of a shape in a stage. The caller holds b.mu.
func (b *Board) measured(stage, shape string, now time.Time) (float64, source) {
	if c := b.cells[cell{stage, shape}]; c != nil && c.rows > 0 {
		return c.seconds / float64(c.rows), byRows
	}
	if c := b.bySteps(stage, shape, now); c > 0 {
		return c, bySteps
	}
	return 0, unknown
}

// slowdown returns the ratio of measured to planned costs; 1 if nothing is measured. The caller holds b.mu.
func (b *Board) slowdown(now time.Time) float64 {
	var measured, planned float64
	for at, seconds := range b.foreseen {
		if c, how := b.measured(at.stage, at.shape, now); how != unknown && seconds > 0 {
			measured, planned = measured+c, planned+seconds
		}
	}
	if planned == 0 {
		return 1
	}
	return measured / planned
}

// bySteps returns the cost of a row, extrapolated from the finished steps of a batch on devices; 0: there is none. The caller holds
// b.mu.
func (b *Board) bySteps(stage, shape string, now time.Time) float64 {
	for x := range b.batches {
		if x.stage == stage && x.shape == shape && x.devices != nil && x.step > 0 && x.count > 0 {
			spent := x.last.Sub(x.started).Seconds() * float64(len(x.devices))
			return spent / float64(x.step) * float64(x.of) / float64(x.count)
		}
	}
	return 0
}

// workInProgress returns the device seconds that batches on devices have used so far, at most the cost of their rows. The caller
// holds b.mu.
func (b *Board) workInProgress(stage, shape string, each float64, now time.Time) (sum float64) {
	for x := range b.batches {
		if x.stage == stage && x.shape == shape && x.devices != nil {
			sum += min(x.spent(now), each*float64(x.count))
		}
	}
	return sum
}

// hasRun reports whether a batch of the stage has finished. The caller holds b.mu.
func (b *Board) hasRun(stage string) bool {
	for at := range b.cells {
		if at.stage == stage {
			return true
		}
	}
	return false
}
