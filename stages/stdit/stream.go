package stdit

import (
	"latentbeam/kernels"
	"latentbeam/stages/nn"
)

// stream is the residual stream of one rank: the tokens of its columns (row of the batch, patch), each with all frames, divided
// into parts that are videos. A single rank has one part with all columns.
type stream struct {
	parts []part
	p     *Prepared // for all rows of this rank and all patches
	dt    kernels.DType
	split *nn.Split // nil: a single rank
}

// part is a range of patches of a range of rows.
type part struct {
	x    kernels.Tensor // (n, T', W, C)
	rows nn.Span        // range of the rows of this rank
	p    *Prepared      // for these rows and patches
}

// block sets the number of the next block, for layers that exchange data between ranks.
func (s *stream) block(i int) {
	if s.split != nil {
		s.split.Group.Block(i)
	}
}

// modulation has the rows that modulate one part in one block: (n, T' or 1, R, C).
type modulation struct {
	rows    kernels.Tensor
	t, area int
}

// row returns row i, expanded over all tokens of the part: (n, T', W, C).
func (m modulation) row(i int) kernels.Tensor { return nn.ModulationRow(m.rows, i, m.t, m.area) }

// modulations returns table (R, C) + vector (B, T' or 1, R, C) for every part.
func (s *stream) modulations(be kernels.Backend, table, vector kernels.Tensor) []modulation {
	rows := nn.ModulationRows(be, table, vector) // (B, T' or 1, R, C)
	out := make([]modulation, len(s.parts))
	for i, p := range s.parts {
		out[i] = modulation{rows.Narrow(0, p.rows.Start, p.rows.Len), p.x.Dim(1), p.x.Dim(2)}
	}
	return out
}

// modulated returns the tokens of all parts, modulate(LN(x)) of the tokens, and the gates, (n, T', W, C) each. Rows 0, 1 and 2
// of the modulations are shift, scale and gate.
func (s *stream) modulated(be kernels.Backend, mods []modulation) (xs, hs, gates []kernels.Tensor) {
	for i, m := range mods {
		x := s.parts[i].x
		xs, gates = append(xs, x), append(gates, m.row(2))
		hs = append(hs, nn.Modulate(be, x, m.row(0), m.row(1)))
	}
	return xs, hs, gates
}

// addSpatial adds gate * attn(modulate(LN(x))) to the stream, along the patches of a frame.
func (s *stream) addSpatial(be kernels.Backend, attn nn.SelfAttention, mods []modulation) error {
	defer be.Scope()()
	xs, hs, gates := s.modulated(be, mods)
	if s.split == nil {
		attn.AddSpatial(be, xs[0], hs[0], gates[0], s.p.spaceRope)
		return nil
	}
	return attn.AddShared(be, s.split, s.dt, xs, hs, gates, s.p.spaceRope)
}

// addTemporal adds gate * attn(modulate(LN(x))) to the stream, along the frames of a patch, or inside windows. Ranks may share
// windows.
func (s *stream) addTemporal(be kernels.Backend, attn nn.SelfAttention, mods []modulation) error {
	defer be.Scope()()
	xs, hs, gates := s.modulated(be, mods)
	if s.split != nil && s.p.windows != (nn.Windows{}) {
		return attn.AddWindowsShared(be, s.split, s.dt, xs, hs, gates, s.p.timeRope, s.p.windows)
	}
	for i, x := range xs {
		attn.AddTemporal(be, x, hs[i], gates[i], s.p.timeRope, s.p.windows)
	}
	return nil
}

// slice returns the part of p for some rows and patches. Patches may extend beyond the frame, into padding, for which p has no
// data.
func (p *Prepared) slice(rows, patches nn.Span) *Prepared {
	q := *p
	q.patches = patches
	patches.Start = min(patches.Start, p.rows*p.cols)
	n := min(patches.Len, p.rows*p.cols-patches.Start) // without padding
	narrow := func(x kernels.Tensor, axis int, at nn.Span) kernels.Tensor {
		if x.IsZero() {
			return x
		}
		return x.Narrow(axis, at.Start, at.Len)
	}
	q.spatial = narrow(p.spatial, 2, nn.Span{Start: patches.Start, Len: n})
	q.texts = p.texts.slice(rows)
	if p.given != nil {
		g := *p.given
		g.texts = p.given.texts.slice(rows)
		for _, x := range []*kernels.Tensor{&g.tokens, &g.mask} {
			*x = narrow(narrow(*x, 0, rows), 2, nn.Span{Start: patches.Start, Len: n})
		}
		q.given = &g
	}
	return &q
}

// slice returns the texts of a range of rows.
func (t texts) slice(rows nn.Span) texts {
	out := texts{lens: t.lens[rows.Start:][:rows.Len]}
	for _, kv := range t.kv {
		if !kv.IsZero() {
			kv = kv.Narrow(0, rows.Start, rows.Len)
		}
		out.kv = append(out.kv, kv)
	}
	return out
}
