package sequence

// Costs is the cost of the parts of a pair of blocks, in FLOP.
type Costs struct {
	Local   float64 // for a token, on its column's owner alone
	Project float64 // for a token: computing queries, keys and values for the shared attention
	Score   float64 // for one query and one key in one head
}

// Load is the FLOP of one rank for one pair of blocks, with padding. Ranks wait for each other between the two parts, so the
// busiest rank of each part counts.
type Load struct {
	Local  float64 // for its columns
	Shared float64 // for its frames and pieces
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
		c.Score*float64(frames)*float64(s.Heads)*float64(s.Positions)) // padded frames have no keys
	for _, piece := range p.pieces[rank] {
		l.Shared += c.Score * float64(piece.Heads.Len()) * float64(piece.Queries.Len()) * float64(s.Positions)
	}
	for i := range p.copies[rank] {
		part := float64(p.CopyHeads(rank, i).Len()) / float64(s.Heads)
		l.Shared += c.Project * part * float64(s.Positions)
	}
	return l
}

// Total returns the FLOP of a single rank, without padding.
func (s Shape) Total(c Costs) float64 {
	rows, keys := float64(s.Batch)*float64(s.Frames)*float64(s.Positions), s.Positions
	if s.Full {
		keys = s.tokens()
	}
	return rows * (c.Local + c.Project + c.Score*float64(s.Heads)*float64(keys))
}

// Imbalance returns how much longer a pair of blocks takes on equally fast ranks than with equal work: 0.01 is one percent.
// Padding counts as work.
func (p *Plan) Imbalance(c Costs) float64 {
	var most Load
	for r := range p.Ranks {
		l := p.Load(r, c)
		most.Local, most.Shared = max(most.Local, l.Local), max(most.Shared, l.Shared)
	}
	return (most.Local+most.Shared)*float64(p.Ranks)/p.Shape.Total(c) - 1
}
