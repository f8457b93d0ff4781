package nn

import (
	"latentbeam/kernels"
	"latentbeam/stages/sequence"
)

// Frames that remain after every rank has its whole frames are divided among several ranks: each computes some heads, and for a
// head some queries. A rank receives their queries, keys and values from the ranks that have the columns. If it is less data,
// it receives a copy of the frame's tokens instead and computes queries, keys and values itself. A row of a matrix product does
// not depend on other rows, so the bits are the same either way.

// projectLeft computes the queries, keys and values of this rank's columns in the remaining frames, for pieces that receive
// them.
func (s *sharing) projectLeft(xs []kernels.Tensor) {
	s.left = map[[2]int]kernels.Tensor{}
	for _, f := range s.Plan.Projected() {
		row, frame := f/s.Plan.Shape.Frames, f%s.Plan.Shape.Frames
		at, mine := s.at[row]
		if !mine {
			continue
		}
		x := xs[at.part].Narrow(0, at.row, 1).Narrow(1, frame, 1) // (1, 1, W, C)
		qkv := s.a.project(s.be, x)                               // (1, 1, W, 3, H, D)
		s.a.rotate(s.be, qkv, s.rope.Narrow(2, at.patches))
		s.left[[2]int{row, frame}] = qkv.Index(0).Index(0)
	}
}

// strip returns the views q (queries, heads, D) and kv (keys, 2, heads, D) of a strip on the rank that has its columns.
func (s *sharing) strip(t sequence.Strip) (q, kv kernels.Tensor) {
	start := s.at[t.Element].patches.Start
	qkv := s.left[[2]int{t.Element, t.Frame}].Narrow(2, t.Heads.Lo, t.Heads.Len()) // (W, 3, heads, D)
	kv = qkv.Narrow(0, t.Keys.Lo-start, t.Keys.Len()).Narrow(1, 1, 2)
	if t.Queries.Len() > 0 {
		q = qkv.Narrow(0, t.Queries.Lo-start, t.Queries.Len()).Narrow(1, 0, 1)
		q = q.Reshape(t.Queries.Len(), t.Heads.Len(), s.d)
	}
	return q, kv
}

// queryRows returns the rows of a piece's x (queries, heads, D) that belong to a strip.
func (s *sharing) queryRows(x []kernels.Tensor, t sequence.Strip) kernels.Tensor {
	return x[t.Piece].Narrow(0, t.Queries.Lo-s.pieces[t.Piece].Queries.Lo, t.Queries.Len())
}

// attendPieces computes this rank's pieces of remaining frames, for pieces that receive queries, keys and values.
func (s *sharing) attendPieces() {
	for i, piece := range s.pieces {
		if !piece.Tokens {
			s.attendPiece(i, s.queries[i], s.keyValues[i])
		}
	}
}

// attendCopies computes this rank's pieces of frames that are copied as tokens. It computes queries, keys and values of its
// heads itself.
func (s *sharing) attendCopies() {
	for i, f := range s.Plan.Copies(s.rank) {
		end := s.be.Scope()
		heads := s.Plan.CopyHeads(s.rank, i)
		x := s.whole.Narrow(0, f.At, 1).Reshape(1, 1, s.whole.Dim(1), s.whole.Dim(2))
		qkv := s.a.projectHeads(s.be, x, heads.Lo, heads.Len()) // (1, 1, S, 3, heads, D)
		s.a.rotate(s.be, qkv, s.rope)
		qkv = qkv.Index(0).Index(0) // (S, 3, heads, D)
		for j, piece := range s.pieces {
			if piece.Element == f.Element && piece.Frame == f.Lo {
				mine := qkv.Narrow(2, piece.Heads.Lo-heads.Lo, piece.Heads.Len())
				q := mine.Narrow(0, piece.Queries.Lo, piece.Queries.Len()).Narrow(1, 0, 1)
				s.attendPiece(j, q.Reshape(piece.Queries.Len(), piece.Heads.Len(), s.d), mine.Narrow(1, 1, 2))
			}
		}
		end()
	}
}

// attendPiece computes piece i from q (queries, heads, D) and kv (S, 2, heads, D).
func (s *sharing) attendPiece(i int, q, kv kernels.Tensor) {
	lead := func(x kernels.Tensor) kernels.Tensor {
		return x.Reshape(append([]int{1}, x.Shape...)...)
	}
	var lens []int
	if n := s.valid(s.pieces[i].Element); n != s.Plan.Shape.Positions {
		lens = []int{n}
	}
	kv = lead(kv)
	s.attend(lead(s.pieceOut[i]), lead(q), s.part(kv, 0), s.part(kv, 1), lens)
}
