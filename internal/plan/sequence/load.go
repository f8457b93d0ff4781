package sequence

// Traffic is how many numbers a rank sends for one pair of blocks, to others than itself.
type Traffic struct {
	Switch   int64 // columns to whole frames and back: two tensors
	LeftOver int64 // q, k, v and o of left-over frames: four tensors; or the tokens and o
}

// Total returns both together.
func (t Traffic) Total() int64 { return t.Switch + t.LeftOver }

// Sent returns what rank sends for one pair of blocks.
func (p *Plan) Sent(rank int) (t Traffic) {
	for other := range p.Ranks {
		if other == rank {
			continue
		}
		for r := range p.rects(p.columns[rank], p.frames[other]) {
			t.Switch += int64(r.Tokens() * p.width)
		}
		for r := range p.rects(p.columns[other], p.frames[rank]) { // the way back
			t.Switch += int64(r.Tokens() * p.Shape.Width())
		}
	}
	t.LeftOver = p.sentOver(rank)
	return t
}

// sentOver is what rank sends for left-over frames.
func (p *Plan) sentOver(rank int) (n int64) {
	for other := range p.Ranks {
		if other == rank {
			continue
		}
		for r := range p.rects(p.columns[rank], p.copies[other]) {
			n += int64(r.Tokens() * p.width)
		}
		for s := range p.strips(rank, other) {
			if !s.Tokens {
				n += int64((s.QueryRows() + 2*s.KeyRows()) * p.Shape.HeadSize)
			}
		}
		for s := range p.strips(other, rank) {
			n += int64(s.QueryRows() * p.Shape.HeadSize)
		}
	}
	return n
}

// Costs is what the parts of a pair of blocks cost, in FLOP.
type Costs struct {
	Local   float64 // of a token, in what its column's owner does alone
	Project float64 // of a token, making queries, keys and values for the attention that is shared
	Score   float64 // of one query against one key in one head
}

// Load is the FLOP of one rank for one pair of blocks, padding included. Ranks meet between the two parts, so
// the busiest rank of each counts.
type Load struct {
	Local  float64 // on its columns
	Shared float64 // in its frames and pieces
}

// Load returns the work of rank.
func (p *Plan) Load(rank int, c Costs) (l Load) {
	s := p.Shape
	columns, frames := float64(p.ColumnSlots(rank)), 0
	for _, span := range p.frames[rank] {
		frames += span.And(Range{0, s.Frames}).Len()
	}
	l.Local = c.Local * columns * float64(s.Frames)
	for _, span := range p.columns[rank] { // queries, keys and values that are sent
		l.Local += c.Project * float64(span.Len()) * float64(p.projectedOf(span.Element))
	}
	l.Shared = float64(p.Keys) * (c.Project*float64(p.FrameSlots(rank)) +
		c.Score*float64(frames)*float64(s.Heads)*float64(s.Positions)) // frames of padding have no keys
	for _, piece := range p.pieces[rank] {
		l.Shared += c.Score * float64(piece.Heads.Len()) * float64(piece.Queries.Len()) * float64(s.Positions)
	}
	for i := range p.copies[rank] {
		part := float64(p.CopyHeads(rank, i).Len()) / float64(s.Heads)
		l.Shared += c.Project * part * float64(s.Positions)
	}
	return l
}

// projectedOf returns of how many left-over frames the owners of an element's columns make queries, keys and
// values.
func (p *Plan) projectedOf(element int) (n int) {
	for _, f := range p.Projected() {
		if f/p.Shape.Frames == element {
			n++
		}
	}
	return n
}

// Total returns the FLOP that one rank alone would spend, without padding.
func (s Shape) Total(c Costs) float64 {
	rows := float64(s.Batch) * float64(s.Frames) * float64(s.Positions)
	return rows * (c.Local + c.Project + c.Score*float64(s.Heads)*float64(s.Positions))
}

// Imbalance returns by how much a pair of blocks takes longer on equally fast ranks than if all had the same
// to do: 0.01 is one percent. Padding counts as work.
func (p *Plan) Imbalance(c Costs) float64 {
	var most Load
	for r := range p.Ranks {
		l := p.Load(r, c)
		most.Local, most.Shared = max(most.Local, l.Local), max(most.Shared, l.Shared)
	}
	return (most.Local+most.Shared)*float64(p.Ranks)/p.Shape.Total(c) - 1
}
