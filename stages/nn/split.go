package nn

import (
	"latentbeam/kernels"
	"latentbeam/stages/sequence"
)

// Split is one rank's share of a batch whose columns (row of the batch, patch) lie on several ranks. Each
// column has all its frames, so temporal attention, text, MLP and norms stay on the rank; attention over the
// patches of a frame goes through AddShared.
type Split struct {
	Plan  *sequence.Plan
	Group *kernels.Group
	// Valid is how many positions of each row are keys, from the first on; nil: all.
	Valid []int
	// Padding is what padded tokens hold. They never reach a result, so it may be anything.
	Padding float32

	moves bool
	parts []Part
	at    map[int]place // by row of the batch
}

// Part is a run of columns that make a video of their own: the same patches of one or more rows.
type Part struct {
	Rows    Span // of the batch
	Patches Span // with padding these may reach beyond the frame
}

// end is the first row behind the part.
func (p Part) end() int { return p.Rows.Start + p.Rows.Len }

// place is where a rank keeps its columns of a row.
type place struct {
	part, row int
	patches   Span
}

// NewSplit returns the share of g's rank under plan.
func NewSplit(plan *sequence.Plan, g *kernels.Group) *Split {
	s := &Split{Plan: plan, Group: g, moves: plan.Moves(), at: map[int]place{}}
	for _, span := range plan.Columns(g.Rank()) {
		patches := Span{span.Lo, span.Len()}
		last := len(s.parts) - 1
		if last >= 0 && s.parts[last].Patches == patches && s.parts[last].end() == span.Element {
			s.parts[last].Rows.Len++
		} else {
			s.parts = append(s.parts, Part{Span{span.Element, 1}, patches})
			last++
		}
		s.at[span.Element] = place{last, s.parts[last].Rows.Len - 1, patches}
	}
	return s
}

// Parts returns what the rank keeps of the residual stream, in order: part i is a tensor (n, T, W, C) for its
// n rows and W patches. A rank may have none.
func (s *Split) Parts() []Part { return s.parts }

// Rows returns how many rows the batch has, of all ranks; without a Split these are the rows of this rank.
func (s *Split) Rows(here int) int {
	if s == nil {
		return here
	}
	return s.Plan.Shape.Batch
}

// Fill sets x to padding.
func (s *Split) Fill(be kernels.Backend, x kernels.Tensor) {
	values := make([]float32, x.Len())
	for i := range values {
		values[i] = s.Padding
	}
	be.Upload(x, values)
}

// columns returns the view (frames, columns, ...) of a rectangle of xs, which hold (n, T, W, ...) each.
func (s *Split) columns(xs []kernels.Tensor, row int, frames, patches sequence.Range) kernels.Tensor {
	at := s.at[row]
	x := xs[at.part].Index(at.row)
	return x.Narrow(0, frames.Lo, frames.Len()).Narrow(1, patches.Lo-at.patches.Start, patches.Len())
}

// AddShared is AddSpatial for ranks that share the frames of a batch. streams, xs and gates hold a tensor
// (n, T, W, C) for each part of this rank, of type dt; rope those of all patches of a frame (1, 1, S, D/2).
// Every rank calls it, also one without parts.
//
// Whole frames go to a rank each and come back (a tensor each way); what is left over goes by head and query,
// as queries, keys and values or as tokens.
// Every row is computed by the same sums as on one rank, so the result has the same bits. Where the ranks
// divide the batch each has whole rows, and nothing is exchanged. Under tensor parallelism the plan is that of
// this rank's heads.
func (a SelfAttention) AddShared(be kernels.Backend, s *Split, dt kernels.DType,
	streams, xs, gates []kernels.Tensor, rope Rope) error {
	if !s.moves && s.Valid == nil {
		for i, x := range xs {
			a.AddSpatial(be, streams[i], x, gates[i], rope)
		}
		return nil
	}
	defer be.Scope()()
	out := make([]kernels.Tensor, len(xs)) // (n, T, W, H, D)
	for i, x := range xs {
		out[i] = be.Alloc(dt, x.Dim(0), x.Dim(1), x.Dim(2), a.Heads, a.D)
	}
	if err := a.attendShared(be, s, dt, out, xs, rope); err != nil {
		return err
	}
	for i := range xs {
		a.addOutput(be, streams[i], out[i], gates[i])
	}
	return nil
}

// attendShared computes the attention of xs to out.
func (a SelfAttention) attendShared(be kernels.Backend, s *Split, dt kernels.DType,
	out, xs []kernels.Tensor, rope Rope) error {
	defer be.Scope()()
	sh := &sharing{Split: s, a: a, be: be, dt: dt, rope: rope, me: s.Group.Rank(), d: s.Plan.Shape.HeadSize}
	sh.alloc()
	sh.projectLeft(xs)
	if err := s.Group.Exchange("space in", sh.columnsOut(xs), sh.framesIn()); err != nil {
		return err
	}
	sh.attendWhole()
	sh.attendPieces()
	sh.attendCopies()
	return s.Group.Exchange("space out", sh.framesOut(), sh.columnsIn(out))
}
