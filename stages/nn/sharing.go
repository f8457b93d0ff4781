package nn

import (
	"slices"

	"latentbeam/internal/plan/sequence"
	"latentbeam/kernels"
)

// sharing is one call of attendShared on one rank.
type sharing struct {
	*Split
	a    SelfAttention
	be   kernels.Backend
	dt   kernels.DType
	rope Rope
	me   int // rank
	d    int // width of a head

	left      map[[2]int]kernels.Tensor // qkv (W, 3, H, D) of this rank's columns in left-over (row, frame)
	whole     kernels.Tensor            // (F, keys, C), the frames that this rank attends in
	wholeOut  kernels.Tensor            // (F, keys, H D), the result
	pieces    []sequence.Piece
	queries   []kernels.Tensor // of each piece (queries, heads, D)
	keyValues []kernels.Tensor // of each piece (S, 2, heads, D)
	pieceOut  []kernels.Tensor // of each piece (queries, heads, D)
}

// alloc takes the memory for what comes from other ranks.
func (s *sharing) alloc() {
	p := s.Plan
	frames := p.FrameSlots(s.me)
	s.whole = s.be.Alloc(s.dt, frames, p.Keys, s.a.QKV.W.Dim(1))
	s.wholeOut = s.be.Alloc(s.dt, frames, p.Keys, p.Shape.Width()) // of this rank's heads
	for _, span := range p.WholeFrames(s.me) {
		if n := span.Hi - max(span.Lo, p.Shape.Frames); n > 0 {
			s.Fill(s.be, s.whole.Narrow(0, span.At+span.Len()-n, n))
		}
	}
	s.pieces = p.Pieces(s.me)
	for _, piece := range s.pieces {
		q, h := piece.Queries.Len(), piece.Heads.Len()
		s.queries = append(s.queries, s.be.Alloc(s.dt, q, h, s.d))
		s.keyValues = append(s.keyValues, s.be.Alloc(s.dt, p.Shape.Positions, 2, h, s.d))
		s.pieceOut = append(s.pieceOut, s.be.Alloc(s.dt, q, h, s.d))
	}
}

// projectLeft computes queries, keys and values of this rank's columns in the left-over frames.
func (s *sharing) projectLeft(xs []kernels.Tensor) {
	s.left = map[[2]int]kernels.Tensor{}
	for _, f := range s.Plan.LeftFrames() {
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

// strip returns the views q (queries, heads, D) and kv (keys, 2, heads, D) of a strip at its columns' owner.
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

// queryRows returns the rows of x (queries, heads, D) of a piece that belong to a strip.
func (s *sharing) queryRows(x []kernels.Tensor, t sequence.Strip) kernels.Tensor {
	return x[t.Piece].Narrow(0, t.Queries.Lo-s.pieces[t.Piece].Queries.Lo, t.Queries.Len())
}

// rects is the plan's switch from one rank's columns to another's frames, without frames of padding: no
// column has them.
func (s *sharing) rects(from, to int) []sequence.Rect {
	list := s.Plan.ToFrames(from, to)
	for i := range list {
		list[i].Frames.Hi = min(list[i].Frames.Hi, s.Plan.Shape.Frames)
	}
	return slices.DeleteFunc(list, func(r sequence.Rect) bool { return r.Frames.Len() == 0 })
}

// frames returns the view (frames, columns, ...) of a rectangle of x (F, keys, ...).
func frames(x kernels.Tensor, r sequence.Rect) kernels.Tensor {
	return x.Narrow(0, r.FrameAt, r.Frames.Len()).Narrow(1, r.Columns.Lo, r.Columns.Len())
}

// columnsOut lists what this rank's columns send to the owners of frames and pieces.
func (s *sharing) columnsOut(xs []kernels.Tensor) (out []kernels.Part) {
	for to := range s.Plan.Ranks {
		for _, r := range s.rects(s.me, to) {
			out = append(out, kernels.Part{Peer: to, View: s.columns(xs, r.Element, r.Frames, r.Columns)})
		}
		for _, t := range s.Plan.LeftOver(s.me, to) {
			q, kv := s.strip(t)
			if !q.IsZero() {
				out = append(out, kernels.Part{Peer: to, View: q})
			}
			out = append(out, kernels.Part{Peer: to, View: kv})
		}
	}
	return out
}

// framesIn lists where that comes to.
func (s *sharing) framesIn() (in []kernels.Part) {
	for from := range s.Plan.Ranks {
		for _, r := range s.rects(from, s.me) {
			in = append(in, kernels.Part{Peer: from, View: frames(s.whole, r)})
		}
		for _, t := range s.Plan.LeftOver(from, s.me) {
			if t.Queries.Len() > 0 {
				in = append(in, kernels.Part{Peer: from, View: s.queryRows(s.queries, t)})
			}
			kv := s.keyValues[t.Piece].Narrow(0, t.Keys.Lo, t.Keys.Len())
			in = append(in, kernels.Part{Peer: from, View: kv})
		}
	}
	return in
}

// framesOut lists what the owners of frames and pieces send back.
func (s *sharing) framesOut() (out []kernels.Part) {
	for to := range s.Plan.Ranks {
		for _, r := range s.rects(to, s.me) {
			out = append(out, kernels.Part{Peer: to, View: frames(s.wholeOut, r)})
		}
		for _, t := range s.Plan.LeftOver(to, s.me) {
			if t.Queries.Len() > 0 {
				out = append(out, kernels.Part{Peer: to, View: s.queryRows(s.pieceOut, t)})
			}
		}
	}
	return out
}

// columnsIn lists where that comes to: out holds (n, T, W, H, D) of each part.
func (s *sharing) columnsIn(out []kernels.Tensor) (in []kernels.Part) {
	for from := range s.Plan.Ranks {
		for _, r := range s.rects(s.me, from) {
			view := s.columns(out, r.Element, r.Frames, r.Columns) // (frames, columns, H, D)
			view = view.Reshape(r.Frames.Len(), r.Columns.Len(), s.Plan.Shape.Width())
			in = append(in, kernels.Part{Peer: from, View: view})
		}
		for _, t := range s.Plan.LeftOver(s.me, from) {
			if t.Queries.Len() > 0 {
				view := s.columns(out, t.Element, sequence.Range{Lo: t.Frame, Hi: t.Frame + 1}, t.Queries).Index(0)
				in = append(in, kernels.Part{Peer: from, View: view.Narrow(1, t.Heads.Lo, t.Heads.Len())})
			}
		}
	}
	return in
}

// attendWhole computes the attention of whole frames. Padded keys are masked; padded frames have none.
func (s *sharing) attendWhole() {
	n, keys := s.whole.Dim(0), s.whole.Dim(1)
	if n == 0 {
		return
	}
	defer s.be.Scope()()
	x := s.whole.Reshape(1, n, keys, s.whole.Dim(2))
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

// lens returns the valid keys of each of this rank's frames, nil where all are valid.
func (s *sharing) lens() (lens []int) {
	p := s.Plan
	for _, span := range p.WholeFrames(s.me) {
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

// attendPieces computes this rank's part of the left-over frames.
func (s *sharing) attendPieces() {
	for i, piece := range s.pieces {
		lead := func(x kernels.Tensor) kernels.Tensor {
			return x.Reshape(1, x.Dim(0), x.Dim(-2), x.Dim(-1))
		}
		var lens []int
		if n := s.valid(piece.Element); n != s.Plan.Shape.Positions {
			lens = []int{n}
		}
		kv := s.keyValues[i].Reshape(1, s.Plan.Shape.Positions, 2, piece.Heads.Len(), s.d)
		s.attend(lead(s.pieceOut[i]), lead(s.queries[i]), s.part(kv, 0), s.part(kv, 1), lens)
	}
}

func (s *sharing) attend(out, q, k, v kernels.Tensor, lens []int) {
	s.be.Attention(out, q, k, v, kernels.AttentionSpec{Scale: AttentionScale(s.d), KeyLens: lens})
}
