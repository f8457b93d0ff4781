package cost

import (
	"fmt"
	"slices"

	"latentbeam/stages/sequence"
)

// Placement is the placement of a stage's weights in memory for a whole job.
type Placement struct {
	// Grid says over how many devices the weights are split: Tensor by Pipeline. Runs has the blocks of each pipeline stage;
	// empty: equal numbers.
	Grid Grid
	Runs []sequence.Range
	// Streamed says that blocks are streamed, except for the first Stay blocks of every device's run. Blocks is the number of
	// blocks.
	Streamed     bool
	Stay, Blocks int
	// Bytes is the size on the fullest device, or, with InAll, on all Mapped devices together.
	Bytes    int64
	InAll    bool
	Rejected []Rejected // placements that were not chosen
}

// Same reports whether h and o are the same placement.
func (h Placement) Same(o Placement) bool {
	return h.Grid == o.Grid && h.Streamed == o.Streamed && h.Stay == o.Stay && slices.Equal(h.Runs, o.Runs)
}

// String describes the placement; "" for weights that are resident everywhere.
func (h Placement) String() string {
	shards, cut := h.Grid.Shards(), ""
	switch {
	case len(h.Runs) > 0:
		var counts []int
		for _, r := range h.Runs {
			counts = append(counts, r.Len())
		}
		cut = fmt.Sprintf("blocks split over %d devices by %d, ", len(h.Runs), counts)
	case shards > 1:
		cut = fmt.Sprintf("sharded over %d devices, tp_size %d by pp_size %d, ", shards, h.Grid.Tensor, h.Grid.Pipeline)
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

// bytes describes the sizes of split weights.
func (h Placement) bytes() string {
	if h.InAll {
		return Bytes(h.Bytes) + " in all"
	}
	return Bytes(h.Bytes) + " on the fullest"
}

// Rejected is a placement or layout that was not chosen, and why.
type Rejected struct{ What, Why string }
