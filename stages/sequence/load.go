package sequence

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
	if s.Full {
		return p.fullLoad(rank, c)
	}
	columns, frames := float64(p.ColumnSlots(rank)), 0
	for _, span := range p.frames[rank] {
		frames += span.And(Range{0, s.Frames}).Len()
	}
	l.Local = c.Local * columns * float64(s.Frames)
	for _, span := range p.columns[rank] { // queries, keys and values that are sent
		l.Local += c.Project * float64(span.Len()) * float64(p.projected[span.Element])
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

// Total returns the FLOP that one rank alone would spend, without padding.
func (s Shape) Total(c Costs) float64 {
	rows, keys := float64(s.Batch)*float64(s.Frames)*float64(s.Positions), s.Positions
	if s.Full {
		keys = s.tokens()
	}
	return rows * (c.Local + c.Project + c.Score*float64(s.Heads)*float64(keys))
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
