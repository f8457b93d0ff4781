package layout

import (
	"latentbeam/internal/plan"
	"latentbeam/stages/sequence"
)

// Stage is what one stage of a job costs for elements of one shape.
type Stage struct {
	Name string
	// Weights are the bytes that every device needs which runs the stage.
	Weights int64
	// Parts are the bytes of the weights by block, in order, what belongs to none first.
	Parts []int64
	// Work is the FLOP of one element.
	Work float64
	// Grid is over how many devices the stage's options cut the weights, Tensor by Pipeline, 0 where they leave it
	// open; Shards are the Parts of each device then, those of its own blocks, as the ranks have them.
	Grid   plan.Grid
	Shards [][]int64
	// Rounds is how often a batch needs all blocks.
	Rounds int
	// Passing are the bytes that pass through a device's memory for every batch, of blocks that do not stay (see Hold).
	Passing float64
	// Need returns the device memory of a batch of n elements on one device, in bytes, without weights.
	Need func(n int) (int64, error)
	// Split says how a set can share an element; nil: see Pieces.
	Split *Split
	// Pieces are the equal parts of an element that devices can take each for itself, such as groups of frames; 0
	// and 1: one device takes it whole.
	Pieces int
}

// Seconds predicts a batch of k elements on a set of devices. Blocks that pass do so beside the work.
func Seconds(s Stage, k int, devices []Device) (float64, error) {
	seconds, err := s.compute(k, devices)
	if s.Passing > 0 {
		for _, d := range devices {
			seconds = max(seconds, s.Passing/d.Host)
		}
	}
	return seconds, err
}

// compute is Seconds without weights that pass.
func (s Stage) compute(k int, devices []Device) (float64, error) {
	if s.Split != nil {
		step, err := Cheapest(*s.Split, k, devices)
		return float64(s.Split.Steps) * step.Seconds(), err
	}
	if s.Grid.Shards() > 1 && len(devices) == s.Grid.Ranks() { // groups of elements pass a pipeline, cuts are even
		var rate float64
		for _, d := range devices {
			rate += d.Rate
		}
		return float64(k) * s.Work / rate, nil
	}
	pieces := max(1, s.Pieces)
	shares, err := sequence.Cut(pieces, rates(devices))
	longest := 0.0
	for i, share := range shares {
		longest = max(longest, float64(share.Len())/devices[i].Rate)
	}
	return float64(k) * s.Work * longest / float64(pieces), err
}

// Split is how a denoiser's work can be shared by sequence parallelism.
type Split struct {
	Shape sequence.Shape // of one element: Batch is its guidance branches
	Pairs int            // spatial and temporal blocks that go together, with one switch to frames and back
	Steps int            // sampling steps
	Bytes int            // of one number in an exchange
	Costs sequence.Costs // of one pair
	// Grid is how many devices share the tokens, by those that share each of them with its weights; only where the
	// latter are several. Sums are those of a pair of blocks that pass from one device to the next then.
	Grid plan.Grid
	Sums int
	// Width is how many devices a set must have, 0 for any; Partitions are those allowed, none for all. Both
	// are the stage's options.
	Width      int
	Partitions []sequence.Partition
}

// batch returns the shape of a forward of k elements.
func (s Split) batch(k int) sequence.Shape {
	shape := s.Shape
	shape.Batch *= k
	return shape
}
