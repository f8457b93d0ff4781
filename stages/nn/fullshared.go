package nn

import (
	"fmt"

	"latentbeam/kernels"
	"latentbeam/stages/sequence"
)

// fullSharing is one call of attendFullShared on one rank.
type fullSharing struct {
	*Split
	be     kernels.Backend
	pieces [][]sequence.Piece // of every rank
	// One tensor for each piece of this rank: queries (L, 1, heads, D), keys and values (T S, 2, heads, D), result (L, heads,
	// D).
	queries, keyValues, out []kernels.Tensor
}

// attendFullShared is AttendFull for rows whose columns are on several ranks.
func attendFullShared(be kernels.Backend, s *Split, dt kernels.DType, outs, qkvs []kernels.Tensor,
	pattern Pattern) error {
	defer be.Scope()()
	shape, me := s.Plan.Shape, s.Group.Rank()
	tokens := shape.Frames * shape.Positions
	f := &fullSharing{Split: s, be: be, pieces: s.Plan.Full()}
	for _, p := range f.pieces[me] {
		heads, n := p.Heads.Len(), p.Queries.Len()
		f.queries = append(f.queries, be.Alloc(dt, n, 1, heads, shape.HeadSize))
		f.keyValues = append(f.keyValues, be.Alloc(dt, tokens, 2, heads, shape.HeadSize))
		f.out = append(f.out, be.Alloc(dt, n, heads, shape.HeadSize))
	}
	if err := f.exchange("full in", qkvs, f.sendColumns, f.receiveHeads); err != nil {
		return err
	}
	for i, p := range f.pieces[me] {
		mask := pattern.mask(p.Element)
		if mask != nil && mask.Tokens() != tokens {
			return fmt.Errorf("a mask of %v for %d tokens", mask.Grid, tokens)
		}
		pattern.attendKeys(be, f.out[i], f.queries[i].Reshape(f.out[i].Shape...), f.keyValues[i], p.Queries.Lo, mask)
	}
	for i, p := range s.parts { // padding receives no result
		if n := s.real(p).Len; n < p.Patches.Len {
			s.Fill(be, outs[i].Narrow(2, n, p.Patches.Len-n))
		}
	}
	return f.exchange("full out", outs, f.sendHeads, f.receiveColumns)
}

// exchange sends every rank the tensors that send lists for it, and receives into the tensors that receive lists.
func (f *fullSharing) exchange(op string, xs []kernels.Tensor,
	send, receive func(xs []kernels.Tensor, peer int) []kernels.Tensor) error {
	var out, in []kernels.Part
	for peer := range f.Plan.Ranks {
		for _, view := range send(xs, peer) {
			out = append(out, kernels.Part{Peer: peer, View: view})
		}
		for _, view := range receive(xs, peer) {
			in = append(in, kernels.Part{Peer: peer, View: view})
		}
	}
	return f.Group.Exchange(op, out, in)
}

// crossing is the intersection of a rank's columns of a row with the queries of a piece: some frames and patches.
type crossing struct {
	piece           int
	patches         sequence.Range // that the rank has, without padding
	frames, queries sequence.Range // range of these patches
}

// crossings lists the intersections of one rank's columns with another rank's pieces. Frames with all queries in the piece are
// joined. A piece without queries in the columns has one crossing without frames, because it needs the keys.
func (f *fullSharing) crossings(columns, heads int) (out []crossing) {
	size := f.Plan.Shape.Positions
	for i, p := range f.pieces[heads] {
		c := crossing{piece: i, patches: f.patchesOf(columns, p.Element)}
		if c.patches.Len() == 0 {
			continue
		}
		out = append(out, c) // it needs the keys and values
		for lo := p.Queries.Lo; lo < p.Queries.Hi; {
			t := lo / size
			end := min(p.Queries.Hi, (t+1)*size)
			c.frames = sequence.Range{Lo: t, Hi: t + 1}
			c.queries = sequence.Range{Lo: lo - t*size, Hi: end - t*size}.And(c.patches)
			if whole := p.Queries.Hi / size; lo == t*size && whole > t {
				c.frames.Hi, end = whole, whole*size
				c.queries = c.patches
			}
			if c.queries.Len() > 0 {
				out = append(out, c)
			}
			lo = end
		}
	}
	return out
}

// patchesOf returns a rank's patches of a row, without padding.
func (f *fullSharing) patchesOf(rank, row int) sequence.Range {
	for _, c := range f.Plan.Columns(rank) {
		if c.Element == row {
			return c.And(sequence.Range{Hi: f.Plan.Shape.Positions})
		}
	}
	return sequence.Range{}
}

// sendColumns lists what this rank's columns send to another rank's pieces: keys and values of the piece's heads (T, W, 2,
// heads, D), and queries (frames, patches, 1, heads, D).
func (f *fullSharing) sendColumns(qkvs []kernels.Tensor, to int) (out []kernels.Tensor) {
	all := sequence.Range{Hi: f.Plan.Shape.Frames}
	for _, c := range f.crossings(f.Group.Rank(), to) {
		p := f.pieces[to][c.piece]
		var view kernels.Tensor
		first, n := 1, 2
		if c.frames.Len() > 0 {
			view, first, n = f.columns(qkvs, p.Element, c.frames, c.queries), 0, 1
		} else {
			view = f.columns(qkvs, p.Element, all, c.patches)
		}
		out = append(out, view.Narrow(2, first, n).Narrow(3, p.Heads.Lo, p.Heads.Len()))
	}
	return out
}

// receiveHeads lists the destinations of another rank's sendColumns.
func (f *fullSharing) receiveHeads(_ []kernels.Tensor, from int) (in []kernels.Tensor) {
	s := f.Plan.Shape
	for _, c := range f.crossings(from, f.Group.Rank()) {
		kv := f.keyValues[c.piece]
		if c.frames.Len() > 0 {
			in = append(in, f.rows(f.queries[c.piece], c))
			continue
		}
		kv = kv.Reshape(s.Frames, s.Positions, 2, kv.Dim(2), kv.Dim(3))
		in = append(in, kv.Narrow(1, c.patches.Lo, c.patches.Len()))
	}
	return in
}

// rows returns the view (frames, patches, ...) of a crossing's rows in x (L, ...), which holds the rows of its piece's queries.
func (f *fullSharing) rows(x kernels.Tensor, c crossing) kernels.Tensor {
	size, first := f.Plan.Shape.Positions, f.pieces[f.Group.Rank()][c.piece].Queries.Lo
	frames := func(width, at int) kernels.Tensor {
		n := c.frames.Len()
		return x.Narrow(0, at-first, n*width).Reshape(append([]int{n, width}, x.Shape[1:]...)...)
	}
	if c.frames.Len() == 1 { // the piece may have only some of its queries
		return frames(c.queries.Len(), c.frames.Lo*size+c.queries.Lo)
	}
	return frames(size, c.frames.Lo*size).Narrow(1, c.queries.Lo, c.queries.Len())
}

// sendHeads lists the results (frames, patches, heads, D) of this rank's pieces for the columns of another rank.
func (f *fullSharing) sendHeads(_ []kernels.Tensor, to int) (out []kernels.Tensor) {
	for _, c := range f.crossings(to, f.Group.Rank()) {
		if c.frames.Len() > 0 {
			out = append(out, f.rows(f.out[c.piece], c))
		}
	}
	return out
}

// receiveColumns lists the destinations of another rank's sendHeads.
func (f *fullSharing) receiveColumns(outs []kernels.Tensor, from int) (in []kernels.Tensor) {
	for _, c := range f.crossings(f.Group.Rank(), from) {
		if c.frames.Len() > 0 {
			p := f.pieces[from][c.piece]
			in = append(in, f.columns(outs, p.Element, c.frames, c.queries).Narrow(2, p.Heads.Lo, p.Heads.Len()))
		}
	}
	return in
}
