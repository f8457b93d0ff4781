package nn

import (
	"latentbeam/kernels"
	"latentbeam/stages/sequence"
)

// Split is one rank's share of a batch whose columns (row of the batch, patch) are divided over several ranks. Each column has
// all its frames, so temporal attention, text, MLP and norms need no other rank. Attention over the patches of a frame uses
// AddShared.
type Split struct {
	Plan  *sequence.Plan
	Group *kernels.Group
	// Valid is the number of first positions in each row that are keys; nil: all.
	Valid []int
	// Padding is the value of padded tokens. They never affect a result, so any value is correct.
	Padding float32

	moves bool
	parts []Part
	at    map[int]place // by row of the batch
}

// Part is a range of columns that form a video: the same patches of one or more rows.
type Part struct {
	Rows    Span // of the batch
	Patches Span // with padding the range may extend beyond the frame
}

// endRow returns the first row after the part.
func (p Part) endRow() int { return p.Rows.Start + p.Rows.Len }

// place says where a rank stores its columns of a row.
type place struct {
	part, row int
	patches   Span
}

// NewSplit returns the share of g's rank in plan.
func NewSplit(plan *sequence.Plan, g *kernels.Group) *Split {
	s := &Split{Plan: plan, Group: g, moves: plan.Moves(), at: map[int]place{}}
	for _, span := range plan.Columns(g.Rank()) {
		patches := Span{span.Lo, span.Len()}
		last := len(s.parts) - 1
		if last >= 0 && s.parts[last].Patches == patches && s.parts[last].endRow() == span.Element {
			s.parts[last].Rows.Len++
		} else {
			s.parts = append(s.parts, Part{Span{span.Element, 1}, patches})
			last++
		}
		s.at[span.Element] = place{last, s.parts[last].Rows.Len - 1, patches}
	}
	return s
}

// Parts returns the parts of the residual stream on this rank, in order. Part i is a tensor (n, T, W, C) for its n rows and W
// patches. A rank may have none.
func (s *Split) Parts() []Part { return s.parts }

// Rows returns the number of rows in the batch of all ranks. A nil Split returns here.
func (s *Split) Rows(here int) int {
	if s == nil {
		return here
	}
	return s.Plan.Shape.Batch
}

// Fill sets x to the value of padding.
func (s *Split) Fill(be kernels.Backend, x kernels.Tensor) {
	values := make([]float32, x.Len())
	for i := range values {
		values[i] = s.Padding
	}
	be.Upload(x, values)
}

// columns returns the view (frames, columns, ...) of a rectangle in xs, which hold (n, T, W, ...) each.
func (s *Split) columns(xs []kernels.Tensor, row int, frames, patches sequence.Range) kernels.Tensor {
	at := s.at[row]
	x := xs[at.part].Index(at.row)
	return x.Narrow(0, frames.Lo, frames.Len()).Narrow(1, patches.Lo-at.patches.Start, patches.Len())
}

// AddShared is AddSpatial for ranks that share the frames of a batch. streams, xs and gates hold a tensor (n, T, W, C) of type
// dt for each part of this rank; rope has the angles of all patches of a frame (1, 1, S, D/2). Every rank must call it, also a
// rank without parts.
//
// A whole frame is sent to one rank and returned (one tensor each way). The remaining frames are divided by head and query, and
// sent as queries, keys and values or as tokens. Every row is computed with the same sums as on one rank, so the result has the
// same bits. If the plan divides the batch by rows, nothing is exchanged. With tensor parallelism the plan is for this rank's
// heads.
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

// attendShared computes the attention of xs and writes it to out.
func (a SelfAttention) attendShared(be kernels.Backend, s *Split, dt kernels.DType,
	out, xs []kernels.Tensor, rope Rope) error {
	defer be.Scope()()
	sh := &sharing{Split: s, a: a, be: be, dt: dt, rope: rope, rank: s.Group.Rank(), d: s.Plan.Shape.HeadSize}
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
