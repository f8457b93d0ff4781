package sequence

import (
	"fmt"
	"math/bits"
)

// Piece is a part of a left-over frame: these queries of these heads, each against all keys of the frame.
type Piece struct {
	Element, Frame int
	Heads, Queries Range
}

// sharePieces gives every rank its part of the left-over frames.
func (p *Plan) sharePieces(w weights) {
	s := p.Shape
	p.pieces = nil
	starts, whole := make([]int, 0, p.Ranks+1), 0
	for r := range p.Ranks {
		starts = append(starts, p.unit(w, r, whole))
		whole += w.floor(s.Batch*s.Frames, w[r+1]-w[r])
	}
	starts = append(starts, len(p.left)*s.Heads*s.Positions)
	for r := range p.Ranks {
		p.pieces = append(p.pieces, p.piecesOf(starts[r], starts[r+1]))
	}
}

// WithHeads returns the plan for ranks that have only some of the heads, the others being on ranks of other
// sets (tensor parallelism): columns and whole frames lie as in p, left-over frames are cut by these heads.
func (p *Plan) WithHeads(heads int) (*Plan, error) {
	q := *p
	q.Shape.Heads = heads
	if err := q.Shape.validate(); err != nil {
		return nil, fmt.Errorf("plan for some heads: %w", err)
	}
	if p.Partition == Uneven {
		q.sharePieces(p.weights)
	}
	q.Hash = q.hash()
	return &q, nil
}

// unit returns where rank r begins in the left-over units, (left-over frame, head, query) flattened; whole is
// how many frames the ranks before it have got whole. A rank is owed frames * share; what is missing after
// whole frames comes in units.
func (p *Plan) unit(w weights, r, whole int) int {
	s := p.Shape
	frame := s.Heads * s.Positions // units of a frame
	owed := s.Batch*s.Frames*w[r] - whole*w.total()
	hi, lo := bits.Mul64(uint64(owed), uint64(frame))
	q, rem := bits.Div64(hi, lo, uint64(w.total()))
	if rem > 0 {
		q++
	}
	at := int(q)
	return at/s.Positions*s.Positions + s.align(at%s.Positions)
}

// align moves a query index to the nearest border of a query tile.
func (s Shape) align(q int) int {
	tile := s.QueryTile
	if tile == 0 || tile > s.Positions {
		tile = s.Positions
	}
	return min((q+tile/2)/tile*tile, s.Positions)
}

// piecesOf splits the units [lo, hi) into pieces: for each frame the end of a head, whole heads, and the
// beginning of a head.
func (p *Plan) piecesOf(lo, hi int) (out []Piece) {
	s := p.Shape
	for lo < hi {
		head, query := lo/s.Positions, lo%s.Positions // head counts on over the frames
		frame := p.left[head/s.Heads]
		end := min(hi, lo+s.Positions-query) // the end of this head
		if query == 0 && hi >= lo+s.Positions {
			end = min(hi/s.Positions, (head/s.Heads+1)*s.Heads) * s.Positions // the last whole head
		}
		heads := (end - lo + s.Positions - 1) / s.Positions
		queries := Range{query, query + end - lo}
		if heads > 1 {
			queries = Range{0, s.Positions}
		}
		h := head % s.Heads
		out = append(out, Piece{frame / s.Frames, frame % s.Frames, Range{h, h + heads}, queries})
		lo = end
	}
	return out
}
