package sequence

// Rect is a part of one element: some columns in some frames. As a message it has its tokens row-major as (column, frame,
// width).
type Rect struct {
	Element         int
	Columns, Frames Range
	ColumnAt        int // position of Columns.Lo at the owner of the columns
	FrameAt         int // position of Frames.Lo at the owner of the frames
}

// Tokens returns the number of tokens.
func (r Rect) Tokens() int { return r.Columns.Len() * r.Frames.Len() }

// ToFrames lists what `from`, as owner of columns, sends to `to`, as owner of whole frames, in order. On the way back the same
// list is sent from `to` to `from`. With from == to it is a local copy. Padded frames are not sent, padded columns are.
func (p *Plan) ToFrames(from, to int) []Rect {
	return p.rects(p.columns[from], p.frames[to])
}

// ToCopies lists what `from`, as owner of columns, sends to `to` for remaining frames of which `to` gets the tokens, in order.
// LeftOver lists what comes back.
func (p *Plan) ToCopies(from, to int) []Rect {
	return p.rects(p.columns[from], p.copies[to])
}

// rects returns the intersections of columns and frames.
func (p *Plan) rects(columns, frames []ElementRange) (out []Rect) {
	for _, c := range columns {
		for _, f := range frames {
			if real := f.And(Range{0, p.Shape.Frames}); c.Element == f.Element && real.Len() > 0 {
				out = append(out, Rect{c.Element, c.Range, real, c.At, f.At})
			}
		}
	}
	return out
}

// Strip is what one rank's columns contribute to another rank's piece: keys and values of its heads at all these positions, and
// queries at some of them.
type Strip struct {
	Piece          int // index in Pieces of the piece's owner
	Element, Frame int
	Heads          Range
	Keys           Range // positions
	Queries        Range // positions, part of Keys, may be empty
	ColumnAt       int   // position of Keys.Lo at the owner of the columns
	QueryAt        int   // position of Queries.Lo there
	Tokens         bool  // the piece's owner gets the tokens instead of q, k and v; the result o returns as usual
}

// QueryRows returns the number of rows of HeadSize numbers in q, and in o on the way back.
func (s Strip) QueryRows() int { return s.Heads.Len() * s.Queries.Len() }

// KeyRows returns the number of rows of HeadSize numbers in k, and the same in v.
func (s Strip) KeyRows() int { return s.Heads.Len() * s.Keys.Len() }

// LeftOver lists what `from`, as owner of columns, sends for the pieces of `to`, in order: q (queries, heads, D), k and v
// (keys, heads, D), unless it sends the tokens. The result o (queries, heads, D) returns along the same list.
func (p *Plan) LeftOver(from, to int) (out []Strip) {
	for i, piece := range p.pieces[to] {
		for _, c := range p.columns[from] {
			if c.Element == piece.Element {
				out = append(out, strip(i, piece, c))
			}
		}
	}
	return out
}

// strip returns what columns c contribute to piece number i of their element.
func strip(i int, piece Piece, c ElementRange) Strip {
	s := Strip{
		Piece: i, Element: piece.Element, Frame: piece.Frame, Heads: piece.Heads,
		Keys: c.Range, Queries: c.And(piece.Queries), ColumnAt: c.At, Tokens: piece.Tokens,
	}
	if s.Queries.Len() == 0 {
		s.Queries = Range{}
	} else {
		s.QueryAt = c.At + s.Queries.Lo - c.Lo
	}
	return s
}

// ColumnPair is a pair of columns in two branches of one element at the same positions.
type ColumnPair struct {
	From, To     int // rows of the batch
	Positions    Range
	FromAt, ToAt int // positions of Positions.Lo at the owners
}

// Meets reports whether guidance combines results of different ranks.
func (p *Plan) Meets(branches int) bool {
	for a := range p.Ranks {
		for b := range p.Ranks {
			if a != b && len(p.Siblings(branches, a, b)) > 0 {
				return true
			}
		}
	}
	return false
}

// Siblings lists the columns of `from` that guidance combines with columns of `to`: the same element and position in another
// branch. The ranks exchange the model's outputs along these lists, so both can take the same sampling step with the latents of
// their own columns.
func (p *Plan) Siblings(branches, from, to int) (out []ColumnPair) {
	for _, a := range p.columns[from] {
		for _, b := range p.columns[to] {
			if a.Element == b.Element || a.Element/branches != b.Element/branches {
				continue
			}
			common := a.And(b.Range).And(Range{0, p.Shape.Positions})
			if common.Len() > 0 {
				out = append(out, ColumnPair{a.Element, b.Element, common, a.At + common.Lo - a.Lo, b.At + common.Lo - b.Lo})
			}
		}
	}
	return out
}
