package cost

import "latentbeam/stages/sequence"

// Estimate is the cost of one stage of a job for elements of one shape.
type Estimate struct {
	Name string
	// Weights is the size of the weights in bytes, on every device that runs the stage.
	Weights int64
	// Parts has the weights' size in bytes by block, in order. The first part belongs to no block.
	Parts []int64
	// Work is the FLOP of one element, and Kernels the kernels that compute it. A device whose kernels have prices (see
	// layout.DeviceModel) is predicted by Kernels, others by Work.
	Work    float64
	Kernels Kernels
	// Host is the time of one host processor for an element, in seconds, besides the device. Decoding a video is an example.
	Host float64
	// Grid says over how many devices the stage's options split the weights, Tensor by Pipeline; 0: not decided. If they are
	// split, Shards has the Parts of each device.
	Grid   Grid
	Shards [][]int64
	// Rounds is how often a batch needs all blocks.
	Rounds int
	// Passing is the number of bytes that are streamed through a device's memory for every batch (see Placement).
	Passing float64
	// Need returns the memory of a batch of n elements on one device, in bytes, without weights.
	Need func(n int) (int64, error)
	// Split says how a set can share an element; nil: see Pieces.
	Split *Split
	// Pieces is the number of equal parts of an element that devices can process independently, such as groups of frames. 0 and
	// 1: one device processes the element.
	Pieces int
}

// Split says how sequence parallelism can share a denoiser's work.
type Split struct {
	Shape sequence.Shape // of one element: Batch is the number of its guidance branches
	Pairs int            // pairs of a spatial and a temporal block, each with one exchange to frames and back
	Steps int            // sampling steps
	// Kernels are the kernels of a step. A device starts all of them, for any number of devices.
	Kernels Kernels
	Bytes   int            // size of a number in an exchange
	Costs   sequence.Costs // of one pair
	// Grid is the number of devices that share the tokens, times the number of devices that together have the weights; set only
	// if the latter is more than 1. Sums is then the number of sums of a pair of blocks that pass from one device to the next.
	Grid Grid
	Sums int
	// Width is the required number of devices of a set, 0 for any. Partitions are the allowed ones, empty for all. Both come
	// from the stage's options.
	Width      int
	Partitions []sequence.Partition
}

// Share returns the share of the tokens of a rank. p is the plan of the shares.
func (s Split) Share(rank int, p *sequence.Plan) int {
	if s.Grid.Shards() > 1 && rank < s.Grid.Ranks() && p != nil && p.Ranks == s.Grid.Sequence {
		rank, _, _ = s.Grid.Place(rank)
	}
	return rank
}
