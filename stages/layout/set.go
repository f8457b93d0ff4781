package layout

import (
	"fmt"
	"math"

	"latentbeam/stages/sequence"
)

// evaluated caches the result of set for the first set of a kind.
type evaluated struct {
	set Set
	why *Infeasible
}

// set evaluates one set of adjacent devices with k elements. Sets of equal devices have equal results.
func (q *Query) set(share sequence.Range, k int) (Set, *Infeasible, error) {
	devices := q.Devices[share.Lo:share.Hi]
	kind := kindOf(devices, k)
	e, seen := q.sets[kind]
	if !seen {
		var err error
		if e, err = q.evaluate(devices, k); err != nil {
			return Set{}, nil, err
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
	return e.set, e.why, nil
}

// kindOf returns a text that is equal for equal sets and k. Equal adjacent devices are named once, so that large sets have
// short texts.
func kindOf(devices []DeviceModel, k int) string {
	name := fmt.Append(nil, k)
	for i, n := 0, 1; i < len(devices); i, n = i+n, 1 {
		for i+n < len(devices) && devices[i+n] == devices[i] {
			n++
		}
		name = fmt.Appendf(name, " %d %v", n, devices[i].Relative(devices[0]))
	}
	return string(name)
}

func (q *Query) evaluate(devices []DeviceModel, k int) (e evaluated, err error) {
	var rate float64
	host := devices[0].Host
	for _, d := range devices {
		rate, host = rate+d.Rate, min(host, d.Host)
	}
	for _, s := range q.Stages {
		s = priced(s, devices)
		seconds := float64(k) * s.Work / rate
		if s.Split != nil {
			if e.set.Forward, err = step(*s.Split, k, devices); err != nil {
				return e, err
			}
			seconds = float64(s.Split.Steps) * e.set.Forward.Seconds()
		}
		if s.Passing > 0 {
			seconds = max(seconds, s.Passing/host)
		}
		e.set.Batch += seconds
	}
	for r, d := range devices {
		m, err := memory(q.Stages, e.set.Forward.Plan, k, r)
		if err != nil {
			return e, err
		}
		e.set.Memory = append(e.set.Memory, m)
		if d.bytesOn(m) > d.room() && e.why == nil {
			e.why = &Infeasible{Width: len(devices), Elements: k, Device: d, Index: r, Need: m}
		}
	}
	return e, nil
}

// makespan returns when n equal batches are done by sets that take the given times for one batch. Each set takes the next batch
// when it is free.
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
