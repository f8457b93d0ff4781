package cost

import "latentbeam/stages/sequence"

// Estimate is what one stage of a job costs for elements of one shape.
type Estimate struct {
	Name string
	// Weights are the bytes that every device needs which runs the stage.
	Weights int64
	// Parts are the bytes of the weights by block, in order, what belongs to none first.
	Parts []int64
	// Work is the FLOP of one element.
	Work float64
	// Host is how long one processor of the host works for an element beside the device, such as to decode its video, in seconds.
	Host float64
	// Calls are the kernels that a batch starts at least, those of a denoiser apart (see Split).
	Calls int64
	// Grid is over how many devices the stage's options cut the weights, Tensor by Pipeline, 0 where they leave it
	// open; Shards are the Parts of each device then, those of its own blocks, as the ranks have them.
	Grid   Grid
	Shards [][]int64
	// Rounds is how often a batch needs all blocks.
	Rounds int
	// Passing are the bytes that pass through a device's memory for every batch, of blocks that do not stay (see Held).
	Passing float64
	// Need returns the device memory of a batch of n elements on one device, in bytes, without weights.
	Need func(n int) (int64, error)
	// Split says how a set can share an element; nil: see Pieces.
	Split *Split
	// Pieces are the equal parts of an element that devices can take each for itself, such as groups of frames; 0
	// and 1: one device takes it whole.
	Pieces int
}

// Split is how a denoiser's work can be shared by sequence parallelism.
type Split struct {
	Shape sequence.Shape // of one element: Batch is its guidance branches
	Pairs int            // spatial and temporal blocks that go together, with one switch to frames and back
	Steps int            // sampling steps
	Calls int64          // kernels that a device starts in a step, however many share it
	Bytes int            // of one number in an exchange
	Costs sequence.Costs // of one pair
	// Grid is how many devices share the tokens, by those that share each of them with its weights; only where the
	// latter are several. Sums are those of a pair of blocks that pass from one device to the next then.
	Grid Grid
	Sums int
	// Width is how many devices a set must have, 0 for any; Partitions are those allowed, none for all. Both
	// are the stage's options.
	Width      int
	Partitions []sequence.Partition
}

// Share returns which share of the tokens a rank has under plan p of the shares.
func (s Split) Share(rank int, p *sequence.Plan) int {
	if s.Grid.Shards() > 1 && rank < s.Grid.Ranks() && p != nil && p.Ranks == s.Grid.Sequence {
		rank, _, _ = s.Grid.Place(rank)
	}
	return rank
}
