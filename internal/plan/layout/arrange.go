package layout

import (
	"cmp"
	"fmt"
	"slices"

	"latentbeam/internal/plan"
	"latentbeam/internal/plan/weights"
)

// Held is how the weights of a stage lie in memory for the whole of a job.
type Held struct {
	// Grid says over how many devices the weights are cut: Tensor by Pipeline. Runs are the blocks of each stage of
	// a pipeline, none for equal numbers.
	Grid plan.Grid
	Runs []weights.Range
	As   string // whose way of cutting the runs are; "": so that the slowest device is done first
	// Streamed says that blocks pass through memory, but for the first Stay of every device's run of Blocks.
	Streamed     bool
	Stay, Blocks int
	// Bytes are those on the fullest device, or, where they are InAll, those of Mapped devices together.
	Bytes int64
	InAll bool
	Lost  []Lost // what was not chosen
}

// Same reports whether weights lie alike under h and o.
func (h Held) Same(o Held) bool {
	return h.Grid == o.Grid && h.Streamed == o.Streamed && h.Stay == o.Stay && slices.Equal(h.Runs, o.Runs)
}

// whole is how weights lie that fit.
func (s Stage) whole() Held {
	h := Held{Grid: plan.Grid{Sequence: 1, Tensor: max(1, s.Grid.Tensor), Pipeline: max(1, s.Grid.Pipeline)},
		Blocks: max(0, len(s.Parts)-1), Bytes: s.Weights}
	if len(s.Shards) > 0 {
		h.Bytes = fullest(s.Shards)
	}
	return h
}

// String says it in words; "" for weights that are there whole.
func (h Held) String() string {
	shards, cut := h.Grid.Shards(), ""
	switch {
	case len(h.Runs) > 0:
		var counts []int
		for _, r := range h.Runs {
			counts = append(counts, r.Len())
		}
		cut = fmt.Sprintf("blocks cut over %d devices by %d, %s", len(h.Runs), counts, h.As)
	case shards > 1:
		cut = fmt.Sprintf("cut over %d devices, tp_size %d by pp_size %d, ", shards, h.Grid.Tensor, h.Grid.Pipeline)
	}
	switch {
	case h.Streamed && shards > 1:
		return fmt.Sprintf("%s%d blocks of each stay, the others pass through memory: %s", cut, h.Stay, h.bytes())
	case h.Streamed:
		return fmt.Sprintf("%d of %d blocks stay, the others pass through memory: %s", h.Stay, h.Blocks, plan.Bytes(h.Bytes))
	case shards > 1:
		return cut + h.bytes()
	}
	return ""
}

// bytes says what is where, of weights that are cut.
func (h Held) bytes() string {
	if h.InAll {
		return plan.Bytes(h.Bytes) + " in all"
	}
	return plan.Bytes(h.Bytes) + " on the fullest"
}

// Arrange says how the weights of every stage lie on devices, when so many elements are to be computed: cut as their
// options say, and where these leave it open whole if those of all stages fit together, for a batch goes from one stage
// to the next; else cut over the devices, passing through memory, or both, whichever is done sooner, those of the
// largest stage first. What is cut and does not fit even so passes through memory too. over is what they take beyond
// the memory that there is all the same.
func Arrange(stages []Stage, devices []Device, elements int) (held []Held, over int64) {
	for _, s := range stages {
		held = append(held, s.whole())
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
func separate(stages []Stage, held []Held, devices []Device, elements int) (over int64) {
	var most, total int64
	for _, h := range held {
		total += h.Bytes
	}
	for _, s := range stages {
		need := s.activations()
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
			*h = h.small(s.Shards, room-total)
		} else {
			s.place(h, devices, elements, most+total)
		}
		total += h.Bytes
	}
	return max(0, total-room)
}

// largestFirst returns the numbers of the stages, those with the most weights first.
func largestFirst(stages []Stage) []int {
	order := make([]int, len(stages))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return -cmp.Compare(stages[a].Weights, stages[b].Weights) })
	return order
}

// activations is what one element takes.
func (s Stage) activations() int64 {
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
func least(devices []Device) int64 {
	room := devices[0].room()
	for _, d := range devices {
		room = min(room, d.room())
	}
	return room
}

// Hold returns the stage as it needs memory and time when its weights lie so.
func Hold(s Stage, h Held) Stage {
	s.Passing = 0
	if h.Streamed {
		for _, parts := range s.shards(h) {
			if 1+h.Stay < len(parts) {
				s.Passing = max(s.Passing, float64(sum(parts[1+h.Stay:]))*float64(max(1, s.Rounds)))
			}
		}
	}
	s.Weights, s.Grid = h.Bytes, h.Grid
	return s
}

// hold does so for all.
func hold(stages []Stage, held []Held) []Stage {
	out := slices.Clone(stages)
	for i, h := range held {
		out[i] = Hold(out[i], h)
	}
	return out
}

func sum(list []int64) (total int64) {
	for _, n := range list {
		total += n
	}
	return total
}
