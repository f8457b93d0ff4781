package layout

import (
	"cmp"
	"slices"

	"latentbeam/stages/cost"
)

// wholePlacement returns the placement of weights that fit completely.
func (s estimate) wholePlacement() cost.Placement {
	h := cost.Placement{Grid: cost.Grid{Sequence: 1, Tensor: max(1, s.Grid.Tensor), Pipeline: max(1, s.Grid.Pipeline)},
		Blocks: max(0, len(s.Parts)-1), Bytes: s.Weights}
	if len(s.Shards) > 0 {
		h.Bytes = fullest(s.Shards)
	}
	return h
}

// Arrange decides how the weights of every stage are placed on devices, when the given number of elements is to be computed.
// Weights are split as the stage's options say. If the options leave it open and the weights of all stages fit together, they
// stay whole, because a batch goes from one stage to the next. Otherwise weights are split over the devices, streamed, or both,
// whichever is faster, starting with the stage with the most weights. Split weights that still do not fit are streamed too.
// over is the number of bytes that exceed the memory even so.
func Arrange(stages []cost.Estimate, devices []DeviceModel, elements int) (held []cost.Placement, over int64) {
	for _, s := range stages {
		held = append(held, estimate(s).wholePlacement())
	}
	switch {
	case len(devices) == 0:
		return held, 0
	case devices[0].Mapped:
		return held, mapped(stages, held, devices)
	}
	return held, separate(stages, held, devices, elements)
}

// separate is Arrange for devices that have memory of their own.
func separate(stages []cost.Estimate, held []cost.Placement, devices []DeviceModel, elements int) (over int64) {
	var most, total int64
	for _, h := range held {
		total += h.Bytes
	}
	for _, s := range stages {
		need := estimate(s).activations()
		if need > least(devices)-total && s.Split != nil && s.Split.Width == 0 {
			need /= int64(len(devices)) // sets become wider before weights are streamed
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
			*h = streamMost(*h, s.Shards, room-total)
		} else {
			estimate(s).place(h, devices, elements, most+total)
		}
		total += h.Bytes
	}
	return max(0, total-room)
}

// largestFirst returns the indices of the stages, most weights first.
func largestFirst(stages []cost.Estimate) []int {
	order := make([]int, len(stages))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return -cmp.Compare(stages[a].Weights, stages[b].Weights) })
	return order
}

// activations returns the memory for one element.
func (s estimate) activations() int64 {
	if s.Need == nil {
		return 0
	}
	n, err := s.Need(1)
	if err != nil {
		return 0 // the element fails later
	}
	return n
}

// least returns the smallest room of all devices.
func least(devices []DeviceModel) int64 {
	room := devices[0].room()
	for _, d := range devices {
		room = min(room, d.room())
	}
	return room
}

// Place returns the stage with the memory and time that follow from the placement h of its weights.
func Place(s cost.Estimate, h cost.Placement) cost.Estimate {
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

// placeAll calls Place for all stages.
func placeAll(stages []cost.Estimate, held []cost.Placement) []cost.Estimate {
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
