package sequence

import "fmt"

// Limits of a shape and a set, several times larger than the largest published models and hosts need.
const (
	maxRanks   = 1024
	maxBatch   = 1 << 16
	maxFrames  = 1 << 20
	maxTokens  = 1 << 36 // Batch * Frames * Positions
	maxHeads   = 1 << 12
	maxHeadDim = 1 << 16
)

// Shape is the shape of one evaluation. Two flattened axes are divided between ranks: columns (element * Positions + position),
// each with all its frames, and frames (element * Frames + frame), each with all its positions. With guidance the branches of
// an element are adjacent rows of the batch: row = element * branches + branch.
//
// If a model's attention covers space and time at once, Full is set. Then the units (element, head, query) are divided.
type Shape struct {
	Batch     int // rows of the evaluation, with guidance branches
	Frames    int // T, after patching
	Positions int // S, tokens of a frame, after patching
	Heads     int
	HeadSize  int // D
	// QueryTile divides the borders of query ranges, so that a kernel's tiles never change; 1 allows any range, 0 allows only
	// whole heads.
	QueryTile int
	// Full says that all tokens of a row attend to each other, over all frames. A column still has all its frames. Plan.Full
	// says which rank computes which heads and queries; there are no whole frames and no Pieces.
	Full bool
}

// Width returns the width of a token, Heads * HeadSize.
func (s Shape) Width() int { return s.Heads * s.HeadSize }

func (s Shape) validate() error {
	for _, f := range []struct {
		name       string
		value, max int
	}{
		{"batch", s.Batch, maxBatch}, {"frames", s.Frames, maxFrames}, {"positions", s.Positions, maxTokens},
		{"heads", s.Heads, maxHeads}, {"head size", s.HeadSize, maxHeadDim},
	} {
		if f.value < 1 || f.value > f.max {
			return fmt.Errorf("%s is %d, must be 1 to %d", f.name, f.value, f.max)
		}
	}
	if s.QueryTile < 0 || s.QueryTile > maxTokens {
		return fmt.Errorf("query tile is %d, must be 0 to %d", s.QueryTile, maxTokens)
	}
	if tokens := s.Batch * s.Frames; s.Positions > maxTokens/tokens {
		return fmt.Errorf("%d rows of %d frames of %d positions are more than %d tokens",
			s.Batch, s.Frames, s.Positions, maxTokens)
	}
	return nil
}

// Partition says how frames are divided for the attention inside them. Every partition gives the result of a single rank.
type Partition uint8

const (
	// Uneven gives every rank whole frames in proportion to its speed, without padding. The remaining frames are divided by
	// (frame, head, query range).
	Uneven Partition = iota
	// Pad pads frames and positions to a multiple of the ranks that share an element, so that all messages have the same size.
	// Padded keys are masked, padded rows dropped. Speeds are ignored.
	Pad
)

var partitionNames = []string{Uneven: "uneven", Pad: "pad"}

// String returns the name that ParsePartition accepts.
func (p Partition) String() string {
	if int(p) < len(partitionNames) {
		return partitionNames[p]
	}
	return fmt.Sprintf("Partition(%d)", uint8(p))
}

// ParsePartition parses "uneven" or "pad".
func ParsePartition(name string) (Partition, error) {
	for i, n := range partitionNames {
		if n == name {
			return Partition(i), nil
		}
	}
	return 0, fmt.Errorf("partition is %q: give uneven or pad", name)
}
