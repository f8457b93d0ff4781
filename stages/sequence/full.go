package sequence

// Full returns the pieces of every rank if all tokens of a row attend to each other: some heads of a row, and all queries of a
// head or a range of them. In these pieces Element is the row, and Queries are tokens, with (frame, position) flattened; every
// piece uses all keys of its heads. The units (row, head, query) are divided in order by the speeds of the ranks, so there may
// be more ranks than heads. Columns are divided as for attention inside frames.
func (p *Plan) Full() [][]Piece {
	if p.full != nil {
		return p.full
	}
	s := p.Shape
	s.Frames, s.Positions = 1, s.tokens()
	rows := &Plan{Shape: s}
	for row := range s.Batch {
		rows.left = append(rows.left, row)
	}
	pieces := make([][]Piece, p.Ranks)
	for r := range pieces {
		end := s.Batch * s.Heads * s.Positions
		if r < p.Ranks-1 {
			end = rows.unit(p.weights, r+1, 0)
		}
		pieces[r] = rows.piecesOf(rows.unit(p.weights, r, 0), end)
	}
	return pieces
}

// tokens returns the number of tokens of a row.
func (s Shape) tokens() int { return s.Frames * s.Positions }

// columnsOnly divides the columns between the ranks in order, and no frames.
func (p *Plan) columnsOnly(w weights) {
	if p.Partition == Uneven {
		p.shareColumns(w, singles(p.Ranks))
	}
	p.frames, p.pieces = make([][]ElementRange, p.Ranks), make([][]Piece, p.Ranks)
}

// fullLoad is Load for full attention: the owners of columns compute queries, keys and values.
func (p *Plan) fullLoad(rank int, c Costs) (l Load) {
	s := p.Shape
	l.Local = (c.Local + c.Project) * float64(p.ColumnSlots(rank)) * float64(s.Frames)
	for _, piece := range p.Full()[rank] {
		l.Shared += c.Score * float64(piece.Heads.Len()) * float64(piece.Queries.Len()) * float64(s.tokens())
	}
	return l
}

// fullSent is Sent for full attention. Keys and values go to every rank with heads of the row, queries go to the rank that
// computes their unit, and results return.
func (p *Plan) fullSent() []Traffic {
	s, sent := p.Shape, make([]Traffic, p.Ranks)
	for from := range p.Ranks {
		for _, c := range p.columns[from] {
			c.Range = c.And(Range{Hi: s.Positions})
			for to, pieces := range p.Full() {
				for _, piece := range pieces {
					if to == from || piece.Element != c.Element || c.Len() == 0 {
						continue
					}
					heads, queries := int64(piece.Heads.Len()*s.HeadSize), int64(s.among(piece.Queries, c.Range))
					sent[from].LeftOver += heads * (queries + int64(2*c.Len()*s.Frames))
					sent[to].LeftOver += heads * queries
				}
			}
		}
	}
	return sent
}

// among returns the number of tokens that are in the columns.
func (s Shape) among(tokens, columns Range) int {
	before := func(i int) int {
		return i/s.Positions*columns.Len() + Range{Lo: columns.Lo, Hi: min(columns.Hi, i%s.Positions)}.Len()
	}
	return before(tokens.Hi) - before(tokens.Lo)
}
