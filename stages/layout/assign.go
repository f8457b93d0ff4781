package layout

import (
	"cmp"
	"slices"
)

// Queue is the state of the queue when devices are leased.
type Queue struct {
	Free      []float64 // when each device is free, in seconds: 0 or less means now, else a prediction
	Rates     []float64 // relative speeds of the devices
	Next      int       // elements of the next batch; 0: one
	Left      int       // elements that have not started, with the next batch
	Rest      float64   // seconds that a device of rate 1 needs for Left without the next batch
	SameShape int       // number of elements of Left, from the next one on, that have its shape and can share its batch
	Least     int       // devices that an element needs for its memory
	Most      int       // elements that fit a set of all devices
	// Seconds predicts a batch of k elements like the next one on a set of devices.
	Seconds func(k int, set []int) float64
}

// lastBatchSlack is how much later than the other choices a batch of all remaining elements may end, relative to its own time. The
// end of that batch is the end of the job; the other choices are compared by a lower bound of their end.
const lastBatchSlack = 0.05

// Assign decides which devices take the next batch, and how many elements. While there is enough work, the first free device
// takes the batch alone. A batch that would last longer than all remaining work gets the number of devices with which the job
// ends soonest. If all remaining elements have one shape, all devices together may take them as one batch, whose flattened axis
// gives each device an even share: with m elements on n devices, m/n each. The devices of a set may be free at different times;
// the batch starts when the last one is free. Devices of rate 0 are ignored.
func Assign(q Queue) (set []int, elements int) {
	q.Next = max(1, q.Next)
	var order []int // earliest free first, then fastest
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
	end := q.earliestEnd(order, best, q.Next)
	for width := best + 1; width <= n; width++ {
		if e := q.earliestEnd(order, width, q.Next); e < end && !nearlyEqual(e, end) {
			best, end = width, e
		}
	}
	if q.SameShape == q.Left && q.Left <= q.Most {
		if e := q.earliestEnd(order, n, q.Left); e <= end+lastBatchSlack*q.Seconds(q.Left, order) {
			return order, q.Left
		}
	}
	return order[:best], q.Next
}

// earliestEnd returns a lower bound for the end of the job if k elements now go to the first width devices: the last device must
// finish its work, and all devices together, without any waste, must do the rest.
func (q Queue) earliestEnd(order []int, width, k int) float64 {
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
