package board

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"latentbeam/internal/watch/runfiles"
)

// Counts returns what was counted so far.
func (b *Board) Counts() Counts {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all()
}

// Facts describes the process now. The caller says who it is and in which state.
func (b *Board) Facts() runfiles.Facts {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	c := b.all()
	f := runfiles.Facts{At: now.UTC().Round(0), Started: b.began.UTC().Round(0), First: c.First,
		Rows: runfiles.Rows{Done: c.Done, Failed: c.Failed, Skipped: c.Skipped, Shared: c.Shared, Bad: c.Bad}}
	for x := range b.batches {
		f.Batches = append(f.Batches, runfiles.Batch{Stage: x.stage, Count: x.count, Rows: x.rows, Shape: x.shape, Step: x.step,
			Of: x.of, Note: x.note, Device: strings.Join(x.devices, " "), Since: x.last.UTC().Round(0), Begun: x.begun.UTC().Round(0)})
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

// predict fills in rates and what is left; mu is held. The cost of a shape in a stage comes from finished rows of the
// shape, else from the steps of a batch at work, else from rows of other shapes, scaled by what the plan says of both, or by their weights,
// else from the plan, scaled by how far the plan is off in other stages. Devices share what is left. Publishing goes on beside them: where it is the slower of the two, it says what is left. Nothing is
// known before a row is published or a step is done, for stages that have not run and have no plan would cost nothing; nor while a
// batch takes far longer than its rows have cost.
func (b *Board) predict(f *runfiles.Facts, now time.Time) {
	devices := float64(max(1, len(b.devices)))
	known := b.begun() && !b.late(now)
	for i, s := range b.shapes {
		var each, left float64 // seconds of devices
		measured := false
		for _, stage := range b.stages {
			c, how := b.cost(stage, s, now)
			if how == unknown && b.touched(stage) {
				known = false
			}
			measured = measured || how == byRows
			passed := int64(0)
			if x := b.cells[cell{stage, s.Name}]; x != nil {
				passed = x.rows
			}
			each += c
			left += c * float64(max(0, min(s.Rows-s.settled, s.Rows-passed)))
			left -= min(left, b.begunWork(stage, s.Name, c, now))
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
	if p := b.publish; p.rows > 0 {
		f.ETA = max(f.ETA, p.seconds/float64(p.rows)*float64(f.Rows.Total-f.Rows.Done-f.Rows.Failed))
	}
}

// begun reports whether a row was published, or a step done; mu is held.
func (b *Board) begun() bool {
	for x := range b.batches {
		if x.step > 0 {
			return true
		}
	}
	return b.counts.Done+b.counts.Failed > 0
}

// A batch is late when it takes so many times what its rows cost before, and so long.
const (
	lateTimes = 3
	lateLeast = 10 * time.Second
)

// late reports whether a batch on devices takes far longer than its rows have cost; mu is held.
func (b *Board) late(now time.Time) bool {
	for x := range b.batches {
		c := b.cells[cell{x.stage, x.shape}]
		if x.devices == nil || c == nil || c.rows == 0 {
			continue
		}
		spent, expected := now.Sub(x.begun).Seconds()*float64(len(x.devices)), c.seconds/float64(c.rows)*float64(x.count)
		if now.Sub(x.begun) > lateLeast && spent > lateTimes*expected {
			return true
		}
	}
	return false
}

// source is where a cost comes from.
type source int

const (
	unknown source = iota
	byPlan
	byWeight
	bySteps
	byRows
)

// cost is what one row of a shape costs in a stage, in seconds of devices; mu is held.
func (b *Board) cost(stage string, s *shape, now time.Time) (float64, source) {
	if c, how := b.seen(stage, s.Name, now); how != unknown {
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
		if c, how := b.seen(stage, other.Name, now); other != s && how != unknown && ratio > 0 {
			return ratio * c, byWeight
		}
	}
	if planned > 0 {
		return planned * b.pace(now), byPlan
	}
	return 0, unknown
}

// seen is what one row of a shape is seen to cost in a stage; mu is held.
func (b *Board) seen(stage, shape string, now time.Time) (float64, source) {
	if c := b.cells[cell{stage, shape}]; c != nil && c.rows > 0 {
		return c.seconds / float64(c.rows), byRows
	}
	if c := b.bySteps(stage, shape, now); c > 0 {
		return c, bySteps
	}
	return 0, unknown
}

// pace is how many times as long as planned everything takes that is seen, 1 where nothing is; mu is held.
func (b *Board) pace(now time.Time) float64 {
	var seen, planned float64
	for at, seconds := range b.foreseen {
		if c, how := b.seen(at.stage, at.shape, now); how != unknown && seconds > 0 {
			seen, planned = seen+c, planned+seconds
		}
	}
	if planned == 0 {
		return 1
	}
	return seen / planned
}

// bySteps is what a row costs by the steps of a batch at work; mu is held.
func (b *Board) bySteps(stage, shape string, now time.Time) float64 {
	for x := range b.batches {
		if x.stage == stage && x.shape == shape && x.devices != nil && x.step > 0 && x.count > 0 {
			spent := x.last.Sub(x.begun).Seconds() * float64(len(x.devices))
			return spent / float64(x.step) * float64(x.of) / float64(x.count)
		}
	}
	return 0
}

// begunWork is how many seconds of devices the batches at work have spent, of what their rows cost; mu is held.
func (b *Board) begunWork(stage, shape string, each float64, now time.Time) (sum float64) {
	for x := range b.batches {
		if x.stage == stage && x.shape == shape && x.devices != nil {
			spent := now.Sub(x.begun).Seconds() * float64(len(x.devices))
			sum += min(spent, each*float64(x.count))
		}
	}
	return sum
}

// touched reports whether anything is known of a stage; mu is held.
func (b *Board) touched(stage string) bool {
	for at := range b.cells {
		if at.stage == stage {
			return true
		}
	}
	return false
}
