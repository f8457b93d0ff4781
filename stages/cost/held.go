package cost

import (
	"fmt"
	"slices"

	"latentbeam/stages/sequence"
)

// Held is how the weights of a stage lie in memory for the whole of a job.
type Held struct {
	// Grid says over how many devices the weights are cut: Tensor by Pipeline. Runs are the blocks of each stage of
	// a pipeline, none for equal numbers.
	Grid Grid
	Runs []sequence.Range
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

// String says it in words; "" for weights that are there whole.
func (h Held) String() string {
	shards, cut := h.Grid.Shards(), ""
	switch {
	case len(h.Runs) > 0:
		var counts []int
		for _, r := range h.Runs {
			counts = append(counts, r.Len())
		}
		cut = fmt.Sprintf("blocks cut over %d devices by %d, ", len(h.Runs), counts)
	case shards > 1:
		cut = fmt.Sprintf("cut over %d devices, tp_size %d by pp_size %d, ", shards, h.Grid.Tensor, h.Grid.Pipeline)
	}
	switch {
	case h.Streamed && shards > 1:
		return fmt.Sprintf("%s%d blocks of each stay, the others pass through memory: %s", cut, h.Stay, h.bytes())
	case h.Streamed:
		return fmt.Sprintf("%d of %d blocks stay, the others pass through memory: %s", h.Stay, h.Blocks, Bytes(h.Bytes))
	case shards > 1:
		return cut + h.bytes()
	}
	return ""
}

// bytes says what is where, of weights that are cut.
func (h Held) bytes() string {
	if h.InAll {
		return Bytes(h.Bytes) + " in all"
	}
	return Bytes(h.Bytes) + " on the fullest"
}

// Lost is a layout that was not chosen, and why.
type Lost struct{ What, Why string }
