package layout

import (
	"cmp"
	"math"
	"slices"

	"latentbeam/stages/cost"
	"latentbeam/stages/sequence"
)

// stream chooses how many blocks stay resident on devices with the given shards and room. The fullest device decides.
func stream(h cost.Placement, shards [][]int64, room int64) (cost.Placement, bool) {
	h.Streamed, h.Stay = true, math.MaxInt
	for _, parts := range shards {
		s, err := Stream(parts[1:], parts[0], room)
		if err != nil {
			return h, false
		}
		if s.Buffer > 0 {
			h.Stay = min(h.Stay, s.Resident)
		}
	}
	if h.Stay == math.MaxInt { // all blocks stay on all devices
		return h, false
	}
	h.Bytes = slices.Max(passing(shards, h.Stay, 1))
	return h, true
}

// streamMost is stream; if the room is too small for any placement, it returns the one with the fewest resident blocks.
func streamMost(h cost.Placement, shards [][]int64, room int64) cost.Placement {
	if out, ok := stream(h, shards, room); ok {
		return out
	}
	for _, parts := range shards {
		if len(parts) > 1 {
			room = max(room, parts[0]+2*slices.Max(parts[1:]))
		}
	}
	if out, ok := stream(h, shards, room); ok {
		return out
	}
	return h
}

// Passing returns the placement h of a stage with at most the first stay blocks of every device's run resident. Weights that
// the devices of a process share do not change.
func Passing(h cost.Placement, s cost.Estimate, stay int) cost.Placement {
	if h.InAll || len(s.Parts) <= 1 || h.Streamed && h.Stay <= stay {
		return h
	}
	h.Streamed, h.Stay = true, stay
	h.Bytes = min(h.Bytes, slices.Max(passing(estimate(s).shards(h), stay, 1)))
	return h
}

// passing returns the bytes of each shard with stay resident blocks. Forward passes that run at the same time may be at different
// blocks, so each of them needs buffers for two blocks.
func passing(shards [][]int64, stay, forwards int) (bytes []int64) {
	for _, parts := range shards {
		all := sum(parts)
		if blocks := parts[1:]; stay < len(blocks) {
			all = min(all, parts[0]+sum(blocks[:stay])+2*int64(forwards)*slices.Max(blocks[stay:]))
		}
		bytes = append(bytes, all)
	}
	return bytes
}

// shards returns the Parts of every device with placement h.
func (s estimate) shards(h cost.Placement) (out [][]int64) {
	switch {
	case len(h.Runs) > 0:
		fixed := s.Parts[0] // blockless weights are where the first block is
		for _, r := range h.Runs {
			out = append(out, append([]int64{fixed}, s.Parts[1+r.Lo:1+r.Hi]...))
			fixed = 0
		}
		return out
	case len(s.Shards) > 0:
		return s.Shards
	case len(s.Parts) > 0:
		return [][]int64{s.Parts}
	}
	return [][]int64{{s.Weights}}
}

func fullest(shards [][]int64) (bytes int64) {
	for _, parts := range shards {
		bytes = max(bytes, sum(parts))
	}
	return bytes
}

// mapped makes blocks stream if the weights of all stages, which the process holds once, do not fit beside the batches of its
// workers. It starts with the stage with the most weights, which keeps as many blocks resident as there is room for.
func mapped(stages []cost.Estimate, held []cost.Placement, devices []DeviceModel) (over int64) {
	var room, most, total int64
	for _, s := range stages {
		most = max(most, estimate(s).activations())
	}
	for _, d := range devices {
		room += d.Memory - most
	}
	for i, s := range stages {
		held[i].Bytes, held[i].InAll = s.Weights, true
		if len(s.Shards) > 0 { // all ranks are in the process
			held[i].Bytes = sum(passing(s.Shards, math.MaxInt, 1))
		}
		total += held[i].Bytes
	}
	for _, i := range largestFirst(stages) {
		s, h := stages[i], &held[i]
		if total <= room || len(s.Parts) <= 2 {
			continue
		}
		total -= h.Bytes
		shards := estimate(s).shards(*h)
		// Every worker, or set of workers, is at another block of the model, so each needs two blocks. The plan already counts
		// the blocks of one.
		forwards := max(1, len(devices)/len(shards))
		h.Streamed, h.Stay = true, len(s.Parts)
		for _, parts := range shards {
			others := 2 * slices.Max(parts[1:]) * int64(forwards-1)
			stream, err := Stream(parts[1:], parts[0], (room-total)/int64(len(shards))-others)
			if err != nil {
				stream.Resident = 0
			}
			h.Stay = min(h.Stay, stream.Resident)
		}
		h.Bytes = sum(passing(shards, h.Stay, forwards))
		total += h.Bytes
	}
	return max(0, total-room)
}

// placement is one placement of weights, and the seconds for an element when all devices work.
type placement struct {
	cost.Placement
	seconds float64
}

// place chooses the placement of the weights: blocks streamed through each device, a pipeline over the devices, or both. beside
// is the number of bytes for other things on a device. Of two placements with equal times it takes the first, so that no device
// waits for others. If none fits, it keeps as few blocks resident as possible.
func (s estimate) place(h *cost.Placement, devices []DeviceModel, elements int, beside int64) {
	var ways []placement
	for _, way := range []func(cost.Placement, []DeviceModel, int, int64) (placement, bool){
		s.streamed, s.pipeline, s.streamedPipeline} {
		p, ok := way(*h, devices, elements, beside)
		same := func(other placement) bool { return p.Streamed == other.Streamed && slices.Equal(p.Runs, other.Runs) }
		if ok && !slices.ContainsFunc(ways, same) {
			ways = append(ways, p)
		}
	}
	if len(ways) == 0 {
		*h = streamMost(*h, [][]int64{s.Parts}, least(devices)-beside)
		return
	}
	slices.SortStableFunc(ways, func(a, b placement) int {
		if nearlyEqual(a.seconds, b.seconds) {
			return 0
		}
		return cmp.Compare(a.seconds, b.seconds)
	})
	*h = ways[0].Placement
	for _, p := range ways[1:] {
		why := "predicted to take as long"
		if !nearlyEqual(p.seconds, ways[0].seconds) {
			why = Slower(p.seconds, ways[0].seconds)
		}
		h.Rejected = append(h.Rejected, cost.Rejected{What: p.String(), Why: why})
	}
}

// pipeline divides the blocks over all devices so that the busiest device has the least work.
func (s estimate) pipeline(h cost.Placement, devices []DeviceModel, _ int, beside int64) (placement, bool) {
	h, ok := s.cut(h, devices, func(d DeviceModel) int64 { return d.room() - beside })
	if !ok {
		return placement{}, false
	}
	return s.timed(h, devices), true
}

// timed returns a pipeline of these runs with its time.
func (s estimate) timed(h cost.Placement, devices []DeviceModel) placement {
	var slowest float64
	shards := s.shards(h)
	for i, d := range devices {
		slowest = max(slowest, s.share(shards[i])*s.Work/d.Rate)
	}
	h.Bytes = fullest(shards)
	return placement{h, slowest}
}

// cut gives every device a run of blocks. The work is proportional to the device's speed as far as its room allows.
func (s estimate) cut(h cost.Placement, devices []DeviceModel, room func(DeviceModel) int64) (cost.Placement, bool) {
	blocks := slices.Clone(s.Parts[1:])
	work := make([]float64, len(blocks))
	for i, b := range blocks {
		work[i] = float64(b)
	}
	blocks[0] += s.Parts[0]
	var targets []Target
	for _, d := range devices {
		targets = append(targets, Target{Bytes: room(d), Speed: d.Rate})
	}
	runs, err := Partition(blocks, work, targets)
	if err != nil || len(devices) < 2 || idle(runs) {
		return h, false
	}
	h.Grid.Pipeline, h.Runs = len(runs), runs
	return h, true
}

// idle reports whether a device has no block. It could then be a set of its own.
func idle(runs []sequence.Range) bool {
	return slices.ContainsFunc(runs, func(r sequence.Range) bool { return r.Len() < 1 })
}

// share returns the part of the stage's work on a device with these parts.
func (s estimate) share(parts []int64) float64 { return float64(sum(parts)) / float64(sum(s.Parts)) }

// streamed streams all blocks through every device. Each device then computes elements alone.
func (s estimate) streamed(h cost.Placement, devices []DeviceModel, elements int, beside int64) (placement, bool) {
	h, ok := stream(h, [][]int64{s.Parts}, least(devices)-beside)
	if !ok {
		return placement{}, false
	}
	k := atOnce(elements / len(devices))
	var speed float64
	for _, d := range devices {
		speed += 1 / s.seconds(s.Parts, h.Stay, d, k)
	}
	return placement{h, 1 / speed}, true
}

// streamedPipeline divides the blocks over all devices and streams the blocks of each run. A batch is divided into as many
// groups of elements, and each group goes through all blocks.
func (s estimate) streamedPipeline(h cost.Placement, devices []DeviceModel, elements int, beside int64) (placement, bool) {
	h, ok := s.cut(h, devices, func(DeviceModel) int64 { return math.MaxInt64 })
	if !ok {
		return placement{}, false
	}
	shards := s.shards(h)
	if h, ok = stream(h, shards, least(devices)-beside); !ok {
		return placement{}, false
	}
	k := atOnce(atOnce(elements) / len(devices))
	var slowest float64
	for i, d := range devices {
		slowest = max(slowest, s.seconds(shards[i], h.Stay, d, k))
	}
	return placement{h, slowest}, true
}

// atOnce returns the number of elements in a batch.
func atOnce(elements int) int { return max(1, min(maxElements, elements)) }

// seconds returns the time of an element on a device with these parts. All blocks but the resident ones are streamed once for k
// elements.
func (s estimate) seconds(parts []int64, stay int, d DeviceModel, k int) float64 {
	var pass float64
	if 1+stay < len(parts) {
		pass = float64(sum(parts[1+stay:])) * float64(max(1, s.Rounds))
	}
	return max(s.share(parts)*s.Work/d.Rate, pass/d.Host/float64(k))
}
