package sequence

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"
)

// Plan says which rank owns what. It is read-only and safe for concurrent use.
type Plan struct {
	Shape     Shape
	Partition Partition
	Ranks     int
	// Hash is equal for equal plans. Every exchange contains it, so that ranks with different plans get an error instead of
	// each other's numbers.
	Hash uint64
	// Keys is the number of positions in a whole frame: Positions, or with Pad the padded number. Keys from Positions on are
	// padding and must be masked.
	Keys int

	columns [][]ElementRange
	frames  [][]ElementRange
	pieces  [][]Piece
	full    [][]Piece // with Shape.Full
	left    []int     // remaining frames by flattened index, ascending
	tokens  []bool    // for each remaining frame: ranks with pieces of it get its tokens
	copies  [][]ElementRange
	// projected is the number of remaining frames in Projected, for each element.
	projected []int
	width     int // width of a token; more than Shape.Width if a rank has only some of the heads
	moves     bool
	weights   weights
}

// ElementRange is a range of positions or frames of one element, and its position at the rank that owns it.
type ElementRange struct {
	Element int // row of the batch
	Range       // with Pad it may extend beyond the shape, into padding
	At      int // local index of Lo
}

// New returns the plan of s for len(speeds) ranks with the given relative speeds. A rank may get nothing.
func New(s Shape, p Partition, speeds []float64) (*Plan, error) {
	if err := s.validate(); err != nil {
		return nil, fmt.Errorf("plan sequence parallelism: %w", err)
	}
	w, err := weigh(speeds)
	if err != nil {
		return nil, fmt.Errorf("plan sequence parallelism: %w", err)
	}
	plan := &Plan{Shape: s, Partition: p, Ranks: len(speeds), Keys: s.Positions, width: s.Width(),
		weights: w, copies: make([][]ElementRange, len(speeds)), projected: make([]int, s.Batch)}
	switch {
	case p != Uneven && p != Pad:
		return nil, fmt.Errorf("plan sequence parallelism: there is no %v", p)
	case p == Pad:
		plan.pad()
	case !s.Full:
		plan.uneven(w)
	}
	if s.Full {
		plan.columnsOnly(w)
	}
	plan.seal()
	return plan, nil
}

// Columns returns a rank's part of the residual stream: spans with all frames, in local order.
func (p *Plan) Columns(rank int) []ElementRange { return p.columns[rank] }

// ColumnSlots returns the number of columns that a rank stores. With Pad it is the same for every rank.
func (p *Plan) ColumnSlots(rank int) int { return slots(p.columns[rank]) }

// WholeFrames returns the frames whose attention a rank computes alone, in local order.
func (p *Plan) WholeFrames(rank int) []ElementRange { return p.frames[rank] }

// FrameSlots returns the number of frames that a rank stores. With Pad it is the same for every rank.
func (p *Plan) FrameSlots(rank int) int { return slots(p.frames[rank]) }

// Pieces returns a rank's part of the remaining frames, at most three pieces for each frame.
func (p *Plan) Pieces(rank int) []Piece { return p.pieces[rank] }

// LeftFrames returns the frames that are divided into pieces, by flattened index, ascending.
func (p *Plan) LeftFrames() []int { return p.left }

// Projected returns the LeftFrames for which the owners of columns compute and send queries, keys and values. For the others
// they send the tokens.
func (p *Plan) Projected() (out []int) {
	for i, f := range p.left {
		if !p.tokens[i] {
			out = append(out, f)
		}
	}
	return out
}

// Copies returns the remaining frames of which a rank gets the tokens, each as a span of one frame, in local order after the
// whole frames.
func (p *Plan) Copies(rank int) []ElementRange { return p.copies[rank] }

// Moves reports whether any rank sends data in a pair of blocks. If the ranks divide the batch by rows, none does.
func (p *Plan) Moves() bool { return p.moves }

// seal computes the fields that follow from the division.
func (p *Plan) seal() {
	if p.full = nil; p.Shape.Full {
		p.full = p.Full()
	}
	p.Hash, p.moves = p.hash(), p.score().largest > 0
}

func slots(spans []ElementRange) int {
	if len(spans) == 0 {
		return 0
	}
	last := spans[len(spans)-1]
	return last.At + last.Len()
}

// pad divides each element between the ranks that serve it. These are all ranks, unless the numbers of ranks and rows have a
// common divisor: then there is that number of groups of ranks, each with its own elements.
func (p *Plan) pad() {
	s := p.Shape
	groups := gcd(p.Ranks, s.Batch)
	n, elements := p.Ranks/groups, s.Batch/groups
	cols, frames := (s.Positions+n-1)/n, (s.Frames+n-1)/n
	p.Keys = n * cols
	for r := range p.Ranks {
		var c, f []ElementRange
		i, first := r%n, r/n*elements
		for e := range elements {
			c = append(c, ElementRange{first + e, Range{i * cols, (i + 1) * cols}, e * cols})
			f = append(f, ElementRange{first + e, Range{i * frames, (i + 1) * frames}, e * frames})
		}
		p.columns, p.frames, p.pieces = append(p.columns, c), append(p.frames, f), append(p.pieces, nil)
	}
}

// spans divides a range of a flattened axis at the borders of elements with the given size.
func spans(r Range, size int) (out []ElementRange) {
	for lo := r.Lo; lo < r.Hi; {
		e := lo / size
		hi := min(r.Hi, (e+1)*size)
		out = append(out, ElementRange{e, Range{lo - e*size, hi - e*size}, lo - r.Lo})
		lo = hi
	}
	return slices.Clip(out)
}

func gcd(a, b int) int {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}

// hash covers all ownership. Processes with different plans notice it by the hash.
func (p *Plan) hash() uint64 {
	h := fnv.New64a()
	put := func(values ...int) {
		for _, v := range values {
			var b [8]byte
			binary.LittleEndian.PutUint64(b[:], uint64(v))
			h.Write(b[:])
		}
	}
	s := p.Shape
	put(s.Batch, s.Frames, s.Positions, s.Heads, s.HeadSize, int(p.Partition), p.Ranks)
	for r := range p.Ranks {
		for _, spans := range [][]ElementRange{p.columns[r], p.frames[r], p.copies[r]} {
			put(len(spans))
			for _, x := range spans {
				put(x.Element, x.Lo, x.Hi)
			}
		}
		pieces := p.pieces[r]
		if p.full != nil {
			pieces = p.full[r]
		}
		put(len(pieces))
		for _, x := range pieces {
			put(x.Element, x.Frame, x.Heads.Lo, x.Heads.Hi, x.Queries.Lo, x.Queries.Hi)
		}
	}
	return h.Sum64()
}
