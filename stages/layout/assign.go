package layout

import (
	"cmp"
	"slices"
)

// Queue is what is known at a lease.
type Queue struct {
	Free  []float64 // when each device is free, in seconds: 0 or less for now, predicted for those at work
	Rates []float64 // relative speeds of the devices
	Next  int       // elements of the next batch; 0: one
	Left  int       // elements still to be begun, the next batch included
	Rest  float64   // seconds that a device of rate 1 takes for those but the next batch
	Same  int       // how many of them, from the next on, have its shape and can share its batch
	Least int       // devices that an element needs for its memory
	Most  int       // elements that fit a set of all devices
	// Seconds predicts a batch of k elements like the next one on a set of devices.
	Seconds func(k int, set []int) float64
}

// promise is by how much of its own time a batch that ends the job for certain may be later than what is best case
// for the other choices.
const promise = 0.05

// Assign decides which devices take the next batch, and how many elements. As long as there is enough to do,
// the first free device takes it alone. A batch that would last longer than all the rest gets as many devices
// as bring the end of the job nearest; and when all that is left has one shape, all devices together take it as
// one batch, whose flattened axis gives each its even share: with m elements left on n devices n/m each. The
// devices of a set may be free at different times; it begins when the last of them is. Devices of rate 0 are
// not there.
func Assign(q Queue) (set []int, elements int) {
	q.Next = max(1, q.Next)
	var order []int // first free first, then fastest
	for i, rate := range q.Rates {
		if rate > 0 {
			order = append(order, i)
		}
	}
	n := len(order)
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(q.Free[a], q.Free[b]), -cmp.Compare(q.Rates[a], q.Rates[b]))
	})
	best := min(max(1, q.Least), n)
	end := q.end(order, best, q.Next)
	for width := best + 1; width <= n; width++ {
		if e := q.end(order, width, q.Next); e < end && !near(e, end) {
			best, end = width, e
		}
	}
	if q.Same == q.Left && q.Left <= q.Most {
		if e := q.end(order, n, q.Left); e <= end+promise*q.Seconds(q.Left, order) {
			return order, q.Left
		}
	}
	return order[:best], q.Next
}

// end is when the job ends at best if k elements now go to the first width devices: not before the last
// device is done with what it has, and not before all together, without any waste, have done the rest.
func (q Queue) end(order []int, width, k int) float64 {
	set := order[:width]
	done := q.Seconds(k, set) + q.Free[order[width-1]]
	last, work, speed := done, 0.0, 0.0
	for i, d := range order {
		free := q.Free[d]
		if i < width {
			free = done
		}
		last = max(last, free)
		work += free * q.Rates[d]
		speed += q.Rates[d]
	}
	if k < q.Left {
		work += q.Rest
	}
	return max(last, work/speed)
}
