package sequence

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"
)

// Plan says who owns what. It is read-only and may serve any number of goroutines.
type Plan struct {
	Shape     Shape
	Partition Partition
	Ranks     int
	// Hash is equal where plans are equal. It stands in every exchange, so that ranks with different plans
	// get an error instead of each other's numbers.
	Hash uint64
	// Keys is how many positions a frame has where frames are whole: Positions, or with Pad that number
	// padded. Keys from Positions on are padding and must be masked.
	Keys int

	columns [][]ElementRange
	frames  [][]ElementRange
	pieces  [][]Piece
	full    [][]Piece // with Shape.Full
	left    []int     // left-over frames by flattened index, ascending
	tokens  []bool    // of each left-over frame: who has pieces of it gets its tokens
	copies  [][]ElementRange
	// projected is, for each element, how many of its left-over frames are in Projected.
	projected []int
	width     int // numbers of a token; where a rank has some of the heads only, more than Shape.Width
	moves     bool
	weights   weights
}

// ElementRange is a range of positions or frames of one element, and where the rank that owns it keeps it.
type ElementRange struct {
	Element int // row of the batch
	Range       // with Pad it may reach beyond the shape: those are padding
	At      int // local index of Lo
}

// New plans s for len(speeds) ranks of the given relative speeds. Ranks may get nothing.
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

// Columns returns what rank keeps of the residual stream: each span with all frames, in local order.
func (p *Plan) Columns(rank int) []ElementRange { return p.columns[rank] }

// ColumnSlots returns how many columns rank stores; with Pad every rank stores as many.
func (p *Plan) ColumnSlots(rank int) int { return slots(p.columns[rank]) }

// WholeFrames returns the frames whose attention rank computes alone, in local order.
func (p *Plan) WholeFrames(rank int) []ElementRange { return p.frames[rank] }

// FrameSlots returns how many frames rank stores; with Pad every rank stores as many.
func (p *Plan) FrameSlots(rank int) int { return slots(p.frames[rank]) }

// Pieces returns rank's part of the left-over frames, at most three pieces a frame.
func (p *Plan) Pieces(rank int) []Piece { return p.pieces[rank] }

// LeftFrames returns the frames that are cut into pieces, by flattened index, ascending.
func (p *Plan) LeftFrames() []int { return p.left }

// Projected returns those of LeftFrames of which the owners of columns make queries, keys and values, to send
// them; of the others they send the tokens.
func (p *Plan) Projected() (out []int) {
	for i, f := range p.left {
		if !p.tokens[i] {
			out = append(out, f)
		}
	}
	return out
}

// Copies returns the left-over frames of which rank gets the tokens, each a span of one frame, in local order
// behind the whole frames.
func (p *Plan) Copies(rank int) []ElementRange { return p.copies[rank] }

// Moves reports whether any rank sends anything for a pair of blocks. Where the ranks divide the batch none
// does.
func (p *Plan) Moves() bool { return p.moves }

// seal notes what all that is shared out comes to.
func (p *Plan) seal() {
	if p.full = nil; p.Shape.Full {
		p.full = p.Full()
	}
	p.Hash, p.moves = p.hash(), p.score().most > 0
}

func slots(spans []ElementRange) int {
	if len(spans) == 0 {
		return 0
	}
	last := spans[len(spans)-1]
	return last.At + last.Len()
}

// pad shares each element out to the ranks that serve it: all of them, unless the ranks and the batch have a
// common divisor; then there are as many groups of ranks, each with its own elements.
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

// spans splits a range of a flattened axis at the elements, each of the given size.
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

// hash covers all ownership. Processes with different plans refuse each other by it.
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
