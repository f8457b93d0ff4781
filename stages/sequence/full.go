package sequence

// Full returns which rank computes what where the tokens of a row all attend to each other, (frame, position)
// flattened: of each row some heads, and of a head all queries or a range of them. Element is the row, Queries are
// tokens; every piece takes all keys of its heads. The units (row, head, query) are shared out in order by the speeds of the
// ranks, so there may be more ranks than heads. Columns lie as they do for attention inside frames.
func (p *Plan) Full() [][]Piece {
	s := p.Shape
	s.Frames, s.Positions = 1, p.Shape.Frames*p.Shape.Positions
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
