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
	// Streamed says that blocks pass through memory, but for the first Stay of Blocks.
	Streamed     bool
	Stay, Blocks int
	// Bytes are those on the fullest device, or of Mapped devices in all the process.
	Bytes int64
	Lost  []Lost // what was not chosen
}

// whole is how weights lie that fit.
func (s Stage) whole() Held {
	h := Held{Grid: plan.Grid{Sequence: 1, Tensor: max(1, s.Grid.Tensor), Pipeline: max(1, s.Grid.Pipeline)},
		Blocks: max(0, len(s.Parts)-1), Bytes: s.Weights}
	if len(s.Shards) > 0 {
		h.Bytes = slices.Max(s.Shards)
	}
	return h
}

// String says it in words; "" for weights that are there whole.
func (h Held) String() string {
	switch {
	case h.Streamed:
		return fmt.Sprintf("%d of %d blocks stay, the others pass through memory: %s", h.Stay, h.Blocks, plan.Bytes(h.Bytes))
	case len(h.Runs) > 0:
		var counts []int
		for _, r := range h.Runs {
			counts = append(counts, r.Len())
		}
		return fmt.Sprintf("blocks cut over %d devices by %d, %s on the fullest", len(h.Runs), counts, plan.Bytes(h.Bytes))
	case h.Grid.Shards() > 1:
		return fmt.Sprintf("cut over %d devices, tp_size %d by pp_size %d, %s on the fullest", h.Grid.Shards(), h.Grid.Tensor,
			h.Grid.Pipeline, plan.Bytes(h.Bytes))
	}
	return ""
}

// Arrange says how the weights of every stage lie on devices, when so many elements are to be computed: as their
// options say, and where that leaves it open whole if they fit, else cut over the devices or passing through
// memory, whichever is done sooner. over is what they take beyond the memory of Mapped devices even so.
func Arrange(stages []Stage, devices []Device, elements int) (held []Held, over int64) {
	for _, s := range stages {
		held = append(held, s.whole())
	}
	if len(devices) == 0 {
		return held, 0
	}
	if devices[0].Mapped {
		return held, mapped(stages, held, devices)
	}
	for i, s := range stages {
		if room := least(devices) - s.activations(); s.Weights > room && len(s.Parts) > 1 && held[i].Grid.Shards() == 1 {
			s.place(&held[i], devices, elements)
		}
	}
	return held, 0
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

// mapped lets blocks pass where the weights of all stages together, which the process has once, do not fit beside
// the batches of its workers: those of the largest stage first, which then keeps as many as there is room for.
func mapped(stages []Stage, held []Held, devices []Device) (over int64) {
	var room, most, total int64
	for _, s := range stages {
		most = max(most, s.activations())
	}
	for _, d := range devices {
		room += d.Memory - most
	}
	order := make([]int, len(stages))
	for i, s := range stages {
		order[i] = i
		if held[i].Bytes = s.Weights; len(s.Shards) > 0 { // all ranks are in the process
			held[i].Bytes = sum(s.Shards)
		}
		total += held[i].Bytes
	}
	slices.SortStableFunc(order, func(a, b int) int { return -cmp.Compare(stages[a].Weights, stages[b].Weights) })
	for _, i := range order {
		s, h := stages[i], &held[i]
		if total <= room || !s.Passes() || h.Grid.Shards() > 1 {
			continue
		}
		// Every worker is somewhere else in the model: two blocks for each, and the plan counts those of one.
		others := 2 * slices.Max(s.Parts[1:]) * int64(len(devices)-1)
		total -= h.Bytes
		stream, err := weights.Stream(s.Parts[1:], s.Parts[0], room-total-others)
		if err != nil {
			stream, _ = weights.Stream(s.Parts[1:], s.Parts[0], s.Parts[0]+2*slices.Max(s.Parts[1:]))
		}
		h.Streamed, h.Stay, h.Bytes = true, stream.Resident, min(s.Weights, stream.Bytes+others)
		total += h.Bytes
	}
	return max(0, total-room)
}

// Passes reports whether the blocks of the stage can pass through memory.
func (s Stage) Passes() bool { return len(s.Parts) > 2 && s.InPlace }

// place chooses between a pipeline over the devices and blocks that pass through each.
func (s Stage) place(h *Held, devices []Device, elements int) {
	pipeline, slow, cut := s.pipeline(*h, devices)
	streamed, slower, flows := s.streamed(*h, devices, elements)
	switch {
	case cut && (!flows || slow <= slower):
		if *h = pipeline; flows {
			h.Lost = []Lost{{streamed.String(), "predicted to take longer"}}
		}
	case flows:
		if *h = streamed; cut {
			h.Lost = []Lost{{pipeline.String(), "predicted to take longer"}}
		}
	}
}

// pipeline cuts the blocks over all devices so that the busiest has least to do, and returns the seconds of an
// element when all are at work.
func (s Stage) pipeline(h Held, devices []Device) (Held, float64, bool) {
	blocks := slices.Clone(s.Parts[1:])
	work := make([]float64, len(blocks))
	for i, b := range blocks {
		work[i] = float64(b)
	}
	blocks[0] += s.Parts[0] // what belongs to no block is where the first one is
	var targets []weights.Target
	for _, d := range devices {
		targets = append(targets, weights.Target{Bytes: d.room() - s.activations(), Speed: d.Rate})
	}
	runs, err := weights.Partition(blocks, work, targets)
	if err != nil || len(devices) < 2 {
		return h, 0, false
	}
	var slowest float64
	h.Bytes = 0
	for i, r := range runs {
		bytes := sum(blocks[r.Lo:r.Hi])
		if r.Len() == 0 {
			return h, 0, false // a device that takes no block: the others are a set of their own
		}
		h.Bytes = max(h.Bytes, bytes)
		slowest = max(slowest, float64(bytes)/float64(sum(blocks))*s.Work/devices[i].Rate)
	}
	h.Grid.Pipeline, h.Runs = len(runs), runs
	return h, slowest, true
}

// streamed lets blocks pass through every device, which then takes elements for itself; seconds are those of one
// element when all are at work.
func (s Stage) streamed(h Held, devices []Device, elements int) (Held, float64, bool) {
	stream, err := weights.Stream(s.Parts[1:], s.Parts[0], least(devices)-s.activations())
	if err != nil || stream.Buffer == 0 {
		return h, 0, false
	}
	h.Streamed, h.Stay, h.Bytes = true, stream.Resident, stream.Bytes
	passing := float64(sum(s.Parts[1+stream.Resident:])) * float64(max(1, s.Rounds))
	k := float64(max(1, min(maxElements, elements/len(devices)))) // elements that a batch brings the blocks for
	var speed float64
	for _, d := range devices {
		speed += 1 / max(s.Work/d.Rate, passing/d.Host/k)
	}
	return h, 1 / speed, true
}

// hold returns the stages as they need memory when their weights lie so.
func hold(stages []Stage, held []Held) []Stage {
	out := slices.Clone(stages)
	for i, h := range held {
		out[i].Weights = h.Bytes
		if h.Streamed || h.Grid.Shards() > 1 {
			out[i].Largest = 0 // it is there at once
		}
	}
	return out
}

func sum(list []int64) (total int64) {
	for _, n := range list {
		total += n
	}
	return total
}
