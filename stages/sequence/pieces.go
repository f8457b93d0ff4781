package sequence

import (
	"fmt"
	"math/bits"
	"slices"
)

// Piece is a part of a remaining frame: some queries of some heads, each with all keys of the frame.
type Piece struct {
	Element, Frame int
	Heads, Queries Range
	// Tokens says that the owner gets the tokens of the frame (Copies) and computes queries, keys and values itself.
	Tokens bool
}

// sharePieces gives every rank its part of the remaining frames.
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
	p.shareTokens()
}

// shareTokens decides for each remaining frame what is sent to the ranks with pieces of it: the queries, keys and values of
// their heads, or the tokens, from which they compute these themselves. Tokens are less data if two ranks share a frame; if many
// ranks do, queries, keys and values are.
func (p *Plan) shareTokens() {
	s := p.Shape
	rows, sharers := make([]int, len(p.left)), make([]int, len(p.left))
	p.eachShared(func(_, left int, pieces []Piece) {
		sharers[left]++
		for _, c := range pieces {
			rows[left] += c.Heads.Len() * (c.Queries.Len() + 2*s.Positions)
		}
	})
	p.tokens, p.projected = make([]bool, len(p.left)), make([]int, s.Batch)
	for i, f := range p.left {
		if p.tokens[i] = sharers[i]*s.Positions*p.width < rows[i]*s.HeadSize; !p.tokens[i] {
			p.projected[f/s.Frames]++
		}
	}
	p.copies = make([][]ElementRange, p.Ranks)
	p.eachShared(func(rank, left int, pieces []Piece) {
		if !p.tokens[left] {
			return
		}
		at := p.FrameSlots(rank) + len(p.copies[rank])
		e, f := pieces[0].Element, pieces[0].Frame
		p.copies[rank] = append(p.copies[rank], ElementRange{e, Range{f, f + 1}, at})
		for i := range pieces {
			pieces[i].Tokens = true
		}
	})
}

// eachShared calls f for each rank and each remaining frame that it has pieces of. left is the frame's index.
func (p *Plan) eachShared(f func(rank, left int, pieces []Piece)) {
	for r, pieces := range p.pieces {
		for len(pieces) > 0 {
			n := 1
			for n < len(pieces) && pieces[n].Element == pieces[0].Element && pieces[n].Frame == pieces[0].Frame {
				n++
			}
			left, _ := slices.BinarySearch(p.left, pieces[0].Element*p.Shape.Frames+pieces[0].Frame)
			f(r, left, pieces[:n])
			pieces = pieces[n:]
		}
	}
}

// WithHeads returns the plan for ranks that have only some of the heads, because ranks of other sets have the others (tensor
// parallelism): columns and whole frames as in p, remaining frames divided by these heads.
func (p *Plan) WithHeads(heads int) (*Plan, error) {
	q := *p
	q.Shape.Heads = heads
	if err := q.Shape.validate(); err != nil {
		return nil, fmt.Errorf("plan for some heads: %w", err)
	}
	if p.Partition == Uneven && !q.Shape.Full {
		q.sharePieces(p.weights)
	}
	q.seal()
	return &q, nil
}

// unit returns the start of rank r's part in the remaining units, (remaining frame, head, query) flattened. whole is the number
// of whole frames of the ranks before it. A rank's share of the frames is a fraction; what exceeds its whole frames, it gets as
// units.
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

// piecesOf divides the units [lo, hi) into pieces: for each frame the end of a head, whole heads, and the start of a head.
func (p *Plan) piecesOf(lo, hi int) (out []Piece) {
	s := p.Shape
	for lo < hi {
		head, query := lo/s.Positions, lo%s.Positions // head is counted over all frames
		frame := p.left[head/s.Heads]
		end := min(hi, lo+s.Positions-query) // end of this head
		if query == 0 && hi >= lo+s.Positions {
			end = min(hi/s.Positions, (head/s.Heads+1)*s.Heads) * s.Positions // end of the last whole head
		}
		heads := (end - lo + s.Positions - 1) / s.Positions
		queries := Range{query, query + end - lo}
		if heads > 1 {
			queries = Range{0, s.Positions}
		}
		h := head % s.Heads
		out = append(out, Piece{Element: frame / s.Frames, Frame: frame % s.Frames, Heads: Range{h, h + heads},
			Queries: queries})
		lo = end
	}
	return out
}

// CopyHeads returns the range of heads of rank's pieces in its copy i, from the first to the last. The rank computes queries,
// keys and values for these.
func (p *Plan) CopyHeads(rank, i int) Range {
	heads := Range{p.Shape.Heads, 0}
	for _, c := range p.pieces[rank] {
		if f := p.copies[rank][i]; c.Element == f.Element && c.Frame == f.Lo {
			heads = Range{min(heads.Lo, c.Heads.Lo), max(heads.Hi, c.Heads.Hi)}
		}
	}
	return heads
}
