package schedule

import (
	"cmp"
	"slices"

	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/cost"
	"latentbeam/stages/layout"
)

// Most batches get one device each, because data parallelism needs no exchange between devices. A batch gets
// more devices if its elements do not fit one device or the job asks for it. It also gets more at the end of a job, when
// devices would be idle. Then the cost model chooses the number of devices with which the job ends earliest, for this
// batch alone or combined with later ones (layout.Assign). A stage without a cost estimate gets n/m devices when m
// batches are left on n devices.

// step is one step of a schedule.
type step struct {
	*Schedule
	*stages.Step
	index int
}

func (s *Schedule) step(i int) step { return step{s, &s.Steps[i], i} }

// choose returns the devices of a batch, and how many elements it computes on them: its own and those of later turns. After
// a failure, cap is the most devices that the batch gets, and the batch is not combined with others; 0: there is no such limit.
func (f step) choose(mine *Turn, cap int, v view) (devices []int, elements int) {
	row, own := &mine.live[0].Row, len(mine.live)
	there := 0
	for _, rate := range v.rates {
		if rate > 0 {
			there++
		}
	}
	least, fixed := f.least(row)
	needed := f.Learned.Devices(f.Name, row) // fewer devices ran out of memory before
	s := f.Capabilities().Spread
	if s != nil {
		needed = max(needed, s.Least)
	}
	least = max(least, needed)
	if cap > 0 {
		return v.pick(capped(f.Step, least, min(max(cap, needed), there))), own
	}
	if least = capped(f.Step, least, there); s == nil || fixed || s.Width(row) != 0 {
		return v.pick(least), own
	}
	ahead, known := f.tail.ahead(f.index)
	if !known {
		return v.pick(least), own
	}
	cost := f.forecast.cost(f.key(row), f.Step, row)
	if cost == nil {
		batches := len(v.queue)
		for _, a := range ahead {
			batches += a.batches
		}
		return v.pick(min(max(least, there/batches), max(least, v.idle()))), own
	}
	return f.assign(mine, least, cost, ahead, v)
}

// assign chooses devices by the cost model. If it is best to combine the batch with elements that have not arrived yet, the
// batch waits for them, but no longer than its own predicted time.
func (f step) assign(mine *Turn, least int, cost *cost.Estimate, ahead []ahead, v view) (
	devices []int, elements int) {
	row, own := &mine.live[0].Row, len(mine.live)
	all := devicesOf(f.Pool)
	fastest := slices.MaxFunc(all, func(a, b layout.DeviceModel) int { return cmp.Compare(a.Rate, b.Rate) })
	rest := func(row *schemas.PromptRow, rows int) float64 {
		key := f.key(row)
		cost := f.forecast.cost(key, f.Step, row)
		return float64(rows) * f.forecast.seconds(key, cost, 1, []layout.DeviceModel{fastest})
	}
	q := layout.Queue{Free: v.free, Rates: v.rates, Next: own, Left: own, SameShape: own, Least: least,
		Most: f.most(row, cost, v),
		Seconds: func(k int, set []int) float64 {
			return f.forecast.seconds(f.key(row), cost, k, subset(all, set))
		}}
	batches := len(v.queue)
	for _, w := range v.queue[1:] {
		q.Left += len(w.live)
		q.Rest += rest(&w.live[0].Row, len(w.live))
		if w.kind != nil && w.kind == mine.kind {
			q.SameShape += len(w.live)
		}
	}
	here := q.SameShape
	for _, a := range ahead {
		q.Left += a.rows
		q.Rest += rest(a.row, a.rows)
		if batches += a.batches; mine.kind == any(costKey{f.index, a.bucket}) {
			q.SameShape += a.rows
		}
	}
	never := f.Stopping() || batches > f.Limit(f.index) // elements ahead may never arrive, or only after batches here have finished
	if never || mine.waited(v.now).Seconds() > f.patience(q.Seconds(own, v.pick(least))) {
		q.SameShape = here
	}
	if devices, elements = layout.Assign(q); elements > here {
		return nil, 0
	}
	return devices, elements
}

// patience returns how many seconds a batch may wait while devices are free. seconds is the batch's predicted time.
func (f step) patience(seconds float64) float64 {
	if f.forecast.measured(f.index) {
		return seconds
	}
	return min(seconds, leastPatience.Seconds())
}

// key returns the key of predictions for rows like row.
func (f step) key(row *schemas.PromptRow) costKey {
	return costKey{f.index, schemas.BucketOf(*row)}
}

// together returns how many waiting elements like row a device should compute at once; 0: batches are not combined.
func (f step) together(row *schemas.PromptRow) int {
	of := f.Capabilities().Together
	if of == nil {
		return 0
	}
	limit := min(of(row), maxTogether)
	if f.MaxBatch > 0 {
		limit = min(limit, f.MaxBatch)
	}
	limit = f.Learned.Fits(f.Name, row, limit)
	key, memory := f.key(row), f.Pool.Memory().Limit
	for ; limit > 1; limit /= 2 {
		need, err := f.forecast.need(key, f.Step, row, limit)
		if err == nil && f.Learned.Correct(f.Name, row, need) <= memory && limit <= f.forecast.fewer(key, limit) {
			break
		}
	}
	return limit
}

// gather returns how many elements a batch computes when it is combined with waiting batches of its kind, up to together. If
// several devices are idle, each gets a share.
func (f step) gather(mine *Turn, elements int, v view) int {
	limit := f.together(&mine.live[0].Row)
	if mine.kind == nil || elements >= limit {
		return elements
	}
	waiting := 0
	for _, w := range v.queue {
		if w.kind == mine.kind {
			waiting += len(w.live)
		}
	}
	idle := max(1, v.idle())
	return max(elements, min(limit, (waiting+idle-1)/idle))
}

// maxTogether bounds the elements that a set computes at once.
const maxTogether = 64

// most returns how many elements like row a set of all devices can compute at once.
func (f step) most(row *schemas.PromptRow, cost *cost.Estimate, v view) int {
	limit := maxTogether
	if n := f.MaxBatch; n > 0 {
		limit = min(limit, n*len(v.rates))
	}
	if n := f.Learned.Fits(f.Name, row, limit); n < limit {
		limit = min(limit, n*len(v.rates))
	}
	return f.forecast.most(f.key(row), cost, f.Pool.Memory().Limit, len(v.rates), limit)
}

// least returns how many devices a batch of rows like row needs: the fixed number in the stage's options, or the
// smallest number with which an element fits the devices' memory.
func (f step) least(row *schemas.PromptRow) (n int, fixed bool) {
	spread := f.Capabilities().Spread
	if spread == nil {
		return 1, true
	}
	if n := spread.Width(row); n > 0 {
		return n, true
	}
	key := f.key(row)
	if cost := f.forecast.cost(key, f.Step, row); cost != nil {
		if n := f.forecast.least(key, cost, f.Pool.Memory().Limit, f.Pool.Size()); n > 0 {
			return n, false
		}
	}
	need, err := f.forecast.need(key, f.Step, row, 1)
	if err != nil {
		return 1, false
	}
	n = 1
	for limit := f.Pool.Memory().Limit; n < f.Pool.Size() && shared(need, n) > limit; n++ {
	}
	return n, false
}

// Needed returns how many devices an element like row needs in a stage, by the stage's estimate and by shortages of memory in
// this run. A fixed number in the stage's options does not count.
func (s *Schedule) Needed(stage int, row *schemas.PromptRow) int {
	f := s.step(stage)
	need := max(f.Capabilities().Shards(), s.Learned.Devices(f.Name, row))
	if least, fixed := f.least(row); !fixed {
		need = max(need, least)
	}
	return need
}

// Widest returns the largest number of devices that a batch of rows like row can have in a stage.
func (s *Schedule) Widest(stage int, row *schemas.PromptRow) int {
	if spread := s.Steps[stage].Capabilities().Spread; spread != nil && spread.Width(row) == 0 {
		return s.Pool.Size()
	}
	return 1
}

// Rates returns the speeds of the devices, relative to the fastest; 0: the device is lost.
func (s *Schedule) Rates() []float64 { return ratesOf(s.Pool) }

// shared returns the memory that each of n devices needs for a batch: its share, and an eighth more for data
// that the devices exchange.
func shared(need int64, n int) int64 {
	if n <= 1 {
		return need
	}
	part := need / int64(n)
	return part + part/8
}
