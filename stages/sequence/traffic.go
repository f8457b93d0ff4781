package sequence

// Traffic is how many numbers a rank sends to other ranks in one pair of blocks.
type Traffic struct {
	Switch   int64 // columns to whole frames and back: two tensors
	LeftOver int64 // q, k, v and o of remaining frames: four tensors; or the tokens and o
}

// Total returns the sum.
func (t Traffic) Total() int64 { return t.Switch + t.LeftOver }

// Sent returns what every rank sends in one pair of blocks: the sum of what ToFrames, ToCopies and LeftOver list, computed
// without visiting all pairs of ranks. Every position and every frame has one owner, so a rank's part of an element determines
// the part of all others.
func (p *Plan) Sent() []Traffic {
	if p.Shape.Full {
		return p.fullSent()
	}
	others := make([]owned, p.Shape.Batch)
	for r := range p.Ranks {
		p.add(others, r, 1)
	}
	sent := make([]Traffic, p.Ranks)
	for r := range sent {
		p.add(others, r, -1)
		sent[r] = p.sent(r, others)
		p.add(others, r, 1)
	}
	return sent
}

// owned counts what a group of ranks has of one element.
type owned struct {
	columns int
	frames  int // whole frames, without padding
	copies  int // remaining frames of which they get the tokens, counted for each rank
	heads   int // heads of pieces for which they get queries, keys and values
}

// add adds n times what rank has.
func (p *Plan) add(of []owned, rank, n int) {
	for _, c := range p.columns[rank] {
		of[c.Element].columns += n * c.Len()
	}
	for _, f := range p.frames[rank] {
		of[f.Element].frames += n * f.And(Range{0, p.Shape.Frames}).Len()
	}
	for _, f := range p.copies[rank] {
		of[f.Element].copies += n * f.Len()
	}
	for _, piece := range p.pieces[rank] {
		if !piece.Tokens {
			of[piece.Element].heads += n * piece.Heads.Len()
		}
	}
}

// sent returns what rank sends to other ranks; others counts, by element, what they have.
func (p *Plan) sent(rank int, others []owned) (t Traffic) {
	s := p.Shape
	var onward, back, copied, rows int64
	for _, c := range p.columns[rank] {
		to := others[c.Element]
		onward += int64(c.Len()) * int64(to.frames)
		copied += int64(c.Len()) * int64(to.copies)
		rows += int64(c.Len()) * int64(2*to.heads)                     // keys and values
		rows += int64(c.Len()) * int64(p.projected[c.Element]*s.Heads) // queries, also those for its own pieces
	}
	for _, f := range p.frames[rank] {
		back += int64(f.And(Range{0, s.Frames}).Len()) * int64(others[f.Element].columns)
	}
	for _, piece := range p.pieces[rank] {
		own := 0 // queries
		for _, c := range p.columns[rank] {
			if c.Element == piece.Element {
				own += c.And(piece.Queries).Len()
			}
		}
		rows += int64(piece.Heads.Len()) * int64(piece.Queries.Len()-own) // results
		if !piece.Tokens {
			rows -= int64(piece.Heads.Len()) * int64(own)
		}
	}
	t.Switch = onward*int64(p.width) + back*int64(s.Width())
	t.LeftOver = copied*int64(p.width) + rows*int64(s.HeadSize)
	return t
}
