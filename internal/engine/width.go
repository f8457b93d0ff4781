package engine

import (
	"cmp"
	"slices"

	"latentbeam/internal/plan/layout"
	"latentbeam/schemas"
)

// Most batches get one device each: several batches on a device each need no exchange (data parallel). A
// batch gets more when its elements do not fit one device, when the job says so, and in the tail of a job,
// when devices would be idle: as many as bring the end of the job nearest by the cost model, alone or with
// the batches behind it (layout.Assign), or, for stages that cannot say what they cost, n/m with m batches
// left on n devices.

// choose says which devices a batch is to have and how many elements, its own and of those behind it. cap
// bounds the devices after a failure, when it stays alone; 0: not.
func (f *Station) choose(mine *turn, cap int, v view) (devices []int, elements int) {
	row, own := &mine.live[0].Row, len(mine.live)
	there := 0
	for _, rate := range v.rates {
		if rate > 0 {
			there++
		}
	}
	least, fixed := f.engine.least(f.step, row)
	needed := f.engine.learned.devices(f.step, row) // fewer have run out of memory
	least = max(least, needed)
	if cap > 0 {
		return v.pick(capped(f.step, least, min(max(cap, needed), there))), own
	}
	s := f.step.Capabilities().Spread
	if least = capped(f.step, least, there); s == nil || fixed || s.Width(row) != 0 {
		return v.pick(least), own
	}
	ahead, known := f.engine.tail.ahead(f.index)
	if !known {
		return v.pick(least), own
	}
	cost := f.engine.forecast.cost(f.key(row), f.step, row)
	if cost == nil {
		batches := len(v.queue)
		for _, a := range ahead {
			batches += a.batches
		}
		return v.pick(min(max(least, there/batches), max(least, v.idle()))), own
	}
	return f.assign(mine, least, cost, ahead, v)
}

// assign asks the cost model. Where the best is to take along what has not come yet, the batch waits for it, but no
// longer than it would be at work itself.
func (f *Station) assign(mine *turn, least int, cost *layout.Stage, ahead []ahead, v view) (
	devices []int, elements int) {
	row, own := &mine.live[0].Row, len(mine.live)
	all := devicesOf(f.engine.Pool)
	fastest := slices.MaxFunc(all, func(a, b layout.Device) int { return cmp.Compare(a.Rate, b.Rate) })
	rest := func(row *schemas.PromptRow, rows int) float64 {
		key := f.key(row)
		cost := f.engine.forecast.cost(key, f.step, row)
		return float64(rows) * f.engine.forecast.seconds(key, cost, 1, []layout.Device{fastest})
	}
	q := layout.Queue{Free: v.free, Rates: v.rates, Next: own, Left: own, Same: own, Least: least,
		Most: f.most(row, cost, v),
		Seconds: func(k int, set []int) float64 {
			return f.engine.forecast.seconds(f.key(row), cost, k, some(all, set))
		}}
	batches := len(v.queue)
	for _, w := range v.queue[1:] {
		q.Left += len(w.live)
		q.Rest += rest(&w.live[0].Row, len(w.live))
		if w.kind != nil && w.kind == mine.kind {
			q.Same += len(w.live)
		}
	}
	here := q.Same
	for _, a := range ahead {
		q.Left += a.rows
		q.Rest += rest(a.row, a.rows)
		if batches += a.batches; mine.kind == any(kind{f, a.bucket}) {
			q.Same += a.rows
		}
	}
	never := f.engine.Stopping() || batches > f.limit() // some of them, or not before others are done
	if never || mine.waited(v.now).Seconds() > f.patience(q.Seconds(own, v.pick(least))) {
		q.Same = here
	}
	if devices, elements = layout.Assign(q); elements > here {
		return nil, 0
	}
	return devices, elements
}

// patience is for how many seconds a batch that takes so many by the model may wait beside free devices.
func (f *Station) patience(seconds float64) float64 {
	if f.engine.forecast.measured(f.index) {
		return seconds
	}
	return min(seconds, leastPatience.Seconds())
}

// kind is what batches must share to become one.
type kind struct {
	stage  *Station
	bucket schemas.Bucket
}

// key is what predictions for rows like this one are kept under.
func (f *Station) key(row *schemas.PromptRow) costKey {
	return costKey{f.index, schemas.BucketOf(*row)}
}

// maxTogether bounds the elements of a batch that a set takes.
const maxTogether = 64

// most returns how many elements like row a set of all devices takes at once.
func (f *Station) most(row *schemas.PromptRow, cost *layout.Stage, v view) int {
	limit := maxTogether
	if n := f.engine.MaxBatch; n > 0 {
		limit = min(limit, n*len(v.rates))
	}
	if n := f.engine.learned.fits(f.step, row, limit); n < limit {
		limit = min(limit, n*len(v.rates))
	}
	return f.engine.forecast.most(f.key(row), cost, f.engine.Pool.Memory().Limit, len(v.rates), limit)
}

// idle returns how many devices are free.
func (v view) idle() (n int) {
	for d, rate := range v.rates {
		if rate > 0 && v.free[d] == 0 {
			n++
		}
	}
	return n
}

// pick returns n devices that are free, next to each other if it can be, as those of one host are; where there
// are not so many, some that are not free.
func (v view) pick(n int) []int {
	var idle, busy []int
	for d, rate := range v.rates {
		switch {
		case rate > 0 && v.free[d] == 0:
			idle = append(idle, d)
		case rate > 0:
			busy = append(busy, d)
		}
	}
	if len(idle) < n {
		return append(idle, busy[:n-len(idle)]...)
	}
	best, most, near := idle[:n], 0.0, false
	for i := 0; i+n <= len(idle); i++ {
		window, sum := idle[i:i+n], 0.0
		for _, d := range window {
			sum += v.rates[d]
		}
		together := window[n-1]-window[0] == n-1
		if together && !near || together == near && sum > most {
			best, most, near = window, sum, together
		}
	}
	return best
}

// least returns how many devices a batch of rows like this one needs: what the stage was told, which is
// fixed, or as many as bring the memory of an element below what a device has.
func (e *Engine) least(s *Step, row *schemas.PromptRow) (n int, fixed bool) {
	spread := s.Capabilities().Spread
	if spread == nil {
		return 1, true
	}
	if n := spread.Width(row); n > 0 {
		return n, true
	}
	key := costKey{e.index(s), schemas.BucketOf(*row)}
	if cost := e.forecast.cost(key, s, row); cost != nil {
		if n := e.forecast.least(key, cost, e.Pool.Memory().Limit, e.Pool.Size()); n > 0 {
			return n, false
		}
	}
	need, err := e.forecast.need(key, s, row, 1)
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
