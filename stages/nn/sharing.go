package nn

import (
	"slices"

	"latentbeam/kernels"
	"latentbeam/stages/sequence"
)

// sharing is one call of attendShared on one rank.
type sharing struct {
	*Split
	a    SelfAttention
	be   kernels.Backend
	dt   kernels.DType
	rope Rope
	rank int // this rank
	d    int // width of a head

	left      map[[2]int]kernels.Tensor // qkv (W, 3, H, D) of this rank's columns in each remaining (row, frame)
	whole     kernels.Tensor            // (F, keys, C): the frames of this rank, then its copies
	wholeOut  kernels.Tensor            // (F, keys, H D): the result
	pieces    []sequence.Piece
	queries   []kernels.Tensor // one for each piece (queries, heads, D); none if its frame is copied
	keyValues []kernels.Tensor // one for each piece (S, 2, heads, D); none if its frame is copied
	pieceOut  []kernels.Tensor // one for each piece (queries, heads, D)
}

// alloc allocates the memory for data from other ranks.
func (s *sharing) alloc() {
	p := s.Plan
	frames := p.FrameSlots(s.rank)
	s.whole = s.be.Alloc(s.dt, frames+len(p.Copies(s.rank)), p.Keys, s.a.QKV.W.Dim(1))
	s.wholeOut = s.be.Alloc(s.dt, frames, p.Keys, p.Shape.Width()) // heads of this rank
	for _, span := range p.WholeFrames(s.rank) {
		if n := span.Hi - max(span.Lo, p.Shape.Frames); n > 0 {
			s.Fill(s.be, s.whole.Narrow(0, span.At+span.Len()-n, n))
		}
	}
	s.pieces = p.Pieces(s.rank)
	for _, piece := range s.pieces {
		q, h := piece.Queries.Len(), piece.Heads.Len()
		var queries, keyValues kernels.Tensor
		if !piece.Tokens {
			queries = s.be.Alloc(s.dt, q, h, s.d)
			keyValues = s.be.Alloc(s.dt, p.Shape.Positions, 2, h, s.d)
		}
		s.queries, s.keyValues = append(s.queries, queries), append(s.keyValues, keyValues)
		s.pieceOut = append(s.pieceOut, s.be.Alloc(s.dt, q, h, s.d))
	}
}

// frames returns the view (frames, columns, ...) of a rectangle in x (F, keys, ...).
func frames(x kernels.Tensor, r sequence.Rect) kernels.Tensor {
	return x.Narrow(0, r.FrameAt, r.Frames.Len()).Narrow(1, r.Columns.Lo, r.Columns.Len())
}

// columnsOut lists what this rank's columns send to the ranks that compute frames and pieces.
func (s *sharing) columnsOut(xs []kernels.Tensor) (out []kernels.Part) {
	for to := range s.Plan.Ranks {
		for _, r := range s.Plan.ToFrames(s.rank, to) {
			out = append(out, kernels.Part{Peer: to, View: s.columns(xs, r.Element, r.Frames, r.Columns)})
		}
		for _, r := range s.Plan.ToCopies(s.rank, to) {
			out = append(out, kernels.Part{Peer: to, View: s.columns(xs, r.Element, r.Frames, r.Columns)})
		}
		for _, t := range s.Plan.LeftOver(s.rank, to) {
			if t.Tokens {
				continue
			}
			q, kv := s.strip(t)
			if !q.IsZero() {
				out = append(out, kernels.Part{Peer: to, View: q})
			}
			out = append(out, kernels.Part{Peer: to, View: kv})
		}
	}
	return out
}

// framesIn lists the destinations of columnsOut.
func (s *sharing) framesIn() (in []kernels.Part) {
	for from := range s.Plan.Ranks {
		for _, r := range s.Plan.ToFrames(from, s.rank) {
			in = append(in, kernels.Part{Peer: from, View: frames(s.whole, r)})
		}
		for _, r := range s.Plan.ToCopies(from, s.rank) {
			in = append(in, kernels.Part{Peer: from, View: frames(s.whole, r)})
		}
		for _, t := range s.Plan.LeftOver(from, s.rank) {
			if t.Tokens {
				continue
			}
			if t.Queries.Len() > 0 {
				in = append(in, kernels.Part{Peer: from, View: s.queryRows(s.queries, t)})
			}
			kv := s.keyValues[t.Piece].Narrow(0, t.Keys.Lo, t.Keys.Len())
			in = append(in, kernels.Part{Peer: from, View: kv})
		}
	}
	return in
}

// framesOut lists the results that the ranks which compute frames and pieces send back.
func (s *sharing) framesOut() (out []kernels.Part) {
	for to := range s.Plan.Ranks {
		for _, r := range s.Plan.ToFrames(to, s.rank) {
			out = append(out, kernels.Part{Peer: to, View: frames(s.wholeOut, r)})
		}
		for _, t := range s.Plan.LeftOver(to, s.rank) {
			if t.Queries.Len() > 0 {
				out = append(out, kernels.Part{Peer: to, View: s.queryRows(s.pieceOut, t)})
			}
		}
	}
	return out
}

// columnsIn lists the destinations of framesOut; out holds (n, T, W, H, D) for each part.
func (s *sharing) columnsIn(out []kernels.Tensor) (in []kernels.Part) {
	for from := range s.Plan.Ranks {
		for _, r := range s.Plan.ToFrames(s.rank, from) {
			view := s.columns(out, r.Element, r.Frames, r.Columns) // (frames, columns, H, D)
			view = view.Reshape(r.Frames.Len(), r.Columns.Len(), s.Plan.Shape.Width())
			in = append(in, kernels.Part{Peer: from, View: view})
		}
		for _, t := range s.Plan.LeftOver(s.rank, from) {
			if t.Queries.Len() > 0 {
				view := s.columns(out, t.Element, sequence.Range{Lo: t.Frame, Hi: t.Frame + 1}, t.Queries).Index(0)
				in = append(in, kernels.Part{Peer: from, View: view.Narrow(1, t.Heads.Lo, t.Heads.Len())})
			}
		}
	}
	return in
}

// attendWhole computes the attention of whole frames. Padded keys are masked; a padded frame has no valid keys.
func (s *sharing) attendWhole() {
	n, keys := s.wholeOut.Dim(0), s.wholeOut.Dim(1)
	if n == 0 {
		return
	}
	defer s.be.Scope()()
	x := s.whole.Narrow(0, 0, n).Reshape(1, n, keys, s.whole.Dim(2))
	qkv := s.a.project(s.be, x) // (1, F, keys, 3, H, D)
	s.a.rotate(s.be, qkv.Narrow(2, 0, s.Plan.Shape.Positions), s.rope)
	qkv = qkv.Index(0)
	out := s.wholeOut.Reshape(n, keys, s.a.Heads, s.d)
	s.attend(out, s.part(qkv, 0), s.part(qkv, 1), s.part(qkv, 2), s.lens())
}

// part returns the queries, keys or values of qkv (n, L, 3, H, D) as (n, L, H, D).
func (s *sharing) part(qkv kernels.Tensor, i int) kernels.Tensor {
	return qkv.Narrow(2, i, 1).Reshape(qkv.Dim(0), qkv.Dim(1), qkv.Dim(3), qkv.Dim(4))
}

// lens returns the number of valid keys in each of this rank's frames, nil if all are valid.
func (s *sharing) lens() (lens []int) {
	p := s.Plan
	for _, span := range p.WholeFrames(s.rank) {
		for f := span.Lo; f < span.Hi; f++ {
			n := 0
			if f < p.Shape.Frames {
				n = s.valid(span.Element)
			}
			lens = append(lens, n)
		}
	}
	if !slices.ContainsFunc(lens, func(n int) bool { return n != p.Keys }) {
		return nil
	}
	return lens
}

// valid returns how many positions of a row are keys.
func (s *sharing) valid(row int) int {
	if s.Valid == nil {
		return s.Plan.Shape.Positions
	}
	return s.Valid[row]
}

func (s *sharing) attend(out, q, k, v kernels.Tensor, lens []int) {
	s.be.Attention(out, q, k, v, kernels.AttentionSpec{Scale: AttentionScale(s.d), KeyLens: lens})
}
