package layout

import (
	"cmp"
	"slices"

	"latentbeam/stages/cost"
)

// whole is how weights lie that fit.
func (s estimate) whole() cost.Held {
	h := cost.Held{Grid: cost.Grid{Sequence: 1, Tensor: max(1, s.Grid.Tensor), Pipeline: max(1, s.Grid.Pipeline)},
		Blocks: max(0, len(s.Parts)-1), Bytes: s.Weights}
	if len(s.Shards) > 0 {
		h.Bytes = fullest(s.Shards)
	}
	return h
}

// Arrange says how the weights of every stage lie on devices, when so many elements are to be computed: cut as their
// options say, and where these leave it open whole if those of all stages fit together, for a batch goes from one stage
// to the next; else cut over the devices, passing through memory, or both, whichever is done sooner, those of the
// largest stage first. What is cut and does not fit even so passes through memory too. over is what they take beyond
// the memory that there is all the same.
func Arrange(stages []cost.Estimate, devices []DeviceModel, elements int) (held []cost.Held, over int64) {
	for _, s := range stages {
		held = append(held, estimate(s).whole())
	}
	switch {
	case len(devices) == 0:
		return held, 0
	case devices[0].Mapped:
		return held, mapped(stages, held, devices)
	}
	return held, separate(stages, held, devices, elements)
}

// separate is Arrange for devices with a memory of their own.
func separate(stages []cost.Estimate, held []cost.Held, devices []DeviceModel, elements int) (over int64) {
	var most, total int64
	for _, h := range held {
		total += h.Bytes
	}
	for _, s := range stages {
		need := estimate(s).activations()
		if need > least(devices)-total && s.Split != nil && s.Split.Width == 0 {
			need /= int64(len(devices)) // sets get wider before weights give way
		}
		most = max(most, need)
	}
	room := least(devices) - most
	for _, i := range largestFirst(stages) {
		s, h := stages[i], &held[i]
		if total <= room || len(s.Parts) <= 1 {
			continue
		}
		total -= h.Bytes
		if h.Grid.Shards() > 1 {
			*h = small(*h, s.Shards, room-total)
		} else {
			estimate(s).place(h, devices, elements, most+total)
		}
		total += h.Bytes
	}
	return max(0, total-room)
}

// largestFirst returns the numbers of the stages, those with the most weights first.
func largestFirst(stages []cost.Estimate) []int {
	order := make([]int, len(stages))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return -cmp.Compare(stages[a].Weights, stages[b].Weights) })
	return order
}

// activations is what one element takes.
func (s estimate) activations() int64 {
	if s.Need == nil {
		return 0
	}
	n, err := s.Need(1)
	if err != nil {
		return 0 // an element that says no more is refused when it comes
	}
	return n
}

// least is the smallest room of a device.
func least(devices []DeviceModel) int64 {
	room := devices[0].room()
	for _, d := range devices {
		room = min(room, d.room())
	}
	return room
}

// Place returns the stage as it needs memory and time when its weights lie so.
func Place(s cost.Estimate, h cost.Held) cost.Estimate {
	s.Passing = 0
	if h.Streamed {
		for _, parts := range estimate(s).shards(h) {
			if 1+h.Stay < len(parts) {
				s.Passing = max(s.Passing, float64(sum(parts[1+h.Stay:]))*float64(max(1, s.Rounds)))
			}
		}
	}
	s.Weights, s.Grid = h.Bytes, h.Grid
	return s
}

// placeAll does so for all.
func placeAll(stages []cost.Estimate, held []cost.Held) []cost.Estimate {
	out := slices.Clone(stages)
	for i, h := range held {
		out[i] = Place(out[i], h)
	}
	return out
}

func sum(list []int64) (total int64) {
	for _, n := range list {
		total += n
	}
	return total
}
