package layout

import (
	"fmt"
	"math"

	"latentbeam/internal/plan/sequence"
)

// evaluated is what set returns for the first set of its kind.
type evaluated struct {
	set Set
	how Residency
	why *Infeasible
}

// set evaluates one set of neighbouring devices with k elements, with the fastest residency that fits. Sets
// of like devices are alike.
func (q *Query) set(share sequence.Range, k int) (Set, Residency, *Infeasible, error) {
	devices := q.Devices[share.Lo:share.Hi]
	kind := fmt.Sprint(k)
	for _, d := range devices {
		d.Island -= devices[0].Island
		kind += fmt.Sprintf(" %v", d)
	}
	e, seen := q.sets[kind]
	if !seen {
		var err error
		if e, err = q.evaluate(devices, k); err != nil {
			return Set{}, 0, nil, err
		}
		if q.sets == nil {
			q.sets = map[string]evaluated{}
		}
		q.sets[kind] = e
	}
	e.set.Devices = make([]int, len(devices))
	for i := range devices {
		e.set.Devices[i] = share.Lo + i
	}
	if e.why != nil {
		why := *e.why
		why.Index += share.Lo
		e.why = &why
	}
	return e.set, e.how, e.why, nil
}

func (q *Query) evaluate(devices []Device, k int) (e evaluated, err error) {
	var rate, rest float64
	for _, d := range devices {
		rate += d.Rate
	}
	for _, s := range q.Stages {
		if s.Split == nil {
			rest += s.Work
		}
	}
	e.set.Batch = float64(k) * rest / rate
	if split := q.split(); split != nil {
		if e.set.Forward, err = Cheapest(*split, k, devices); err != nil {
			return e, err
		}
		e.set.Batch += float64(split.Steps) * e.set.Forward.Seconds()
	}
	for e.how = Resident; ; e.how++ {
		e.set.Memory, e.why = nil, nil
		for r, d := range devices {
			m, err := memory(q.Stages, e.how, e.set.Forward.Plan, k, r)
			if err != nil {
				return e, err
			}
			e.set.Memory = append(e.set.Memory, m)
			if d.takes(m) > d.room() && e.why == nil {
				e.why = &Infeasible{Width: len(devices), Elements: k, Device: d, Index: r, Need: m}
			}
		}
		if e.why == nil || e.how == Streamed || devices[0].Mapped { // what is mapped has been arranged
			return e, nil
		}
	}
}

// makespan is when n equal batches are done by sets that take the given times for one, each set taking the
// next batch when it is free.
func makespan(times []float64, n int) float64 {
	if n <= 0 {
		return 0
	}
	var speed, slowest float64
	for _, t := range times {
		speed += 1 / t
		slowest = max(slowest, t)
	}
	done := func(at float64) (batches float64) {
		for _, t := range times {
			batches += math.Floor(at/t + 1e-9)
		}
		return batches
	}
	lo, hi := 0.0, float64(n)/speed+slowest
	for range 60 {
		if mid := (lo + hi) / 2; done(mid) >= float64(n) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi
}
