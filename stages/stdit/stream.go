package stdit

import (
	"latentbeam/kernels"
	"latentbeam/stages/nn"
)

// stream is the residual stream of one rank: the tokens of its columns (row of the batch, patch), each with
// all frames, in parts that are videos of their own. A rank alone has one part with everything.
type stream struct {
	parts []part
	p     *Prepared // of all rows of this rank and all patches
	dt    kernels.DType
	split *nn.Split // nil: alone
}

// part is some patches of some rows.
type part struct {
	x    kernels.Tensor // (n, T', W, C)
	rows nn.Span        // of the rows of this rank
	p    *Prepared      // of these rows and patches
}

// block notes which block comes next, for those that the ranks exchange something with.
func (s *stream) block(i int) {
	if s.split != nil {
		s.split.Group.Block(i)
	}
}

// modulation is the rows by which one block modulates one part: (n, T' or 1, R, C).
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

// modulated returns the tokens of all parts, modulate(LN(x)) of them, and their gates, (n, T', W, C) each.
// Rows 0, 1 and 2 of the modulations are shift, scale and gate.
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

// addTemporal adds gate * attn(modulate(LN(x))) to the stream, along the frames of a patch or inside
// windows, which ranks may share.
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

// of returns what p holds for some rows and patches. Patches may reach beyond the frame, into padding, for
// which there is nothing.
func (p *Prepared) of(rows, patches nn.Span) *Prepared {
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
	q.texts = p.texts.of(rows)
	if p.given != nil {
		g := *p.given
		g.texts = p.given.texts.of(rows)
		for _, x := range []*kernels.Tensor{&g.tokens, &g.mask} {
			*x = narrow(narrow(*x, 0, rows), 2, nn.Span{Start: patches.Start, Len: n})
		}
		q.given = &g
	}
	return &q
}

// of returns the texts of some rows.
func (t texts) of(rows nn.Span) texts {
	out := texts{lens: t.lens[rows.Start:][:rows.Len]}
	for _, kv := range t.kv {
		if !kv.IsZero() {
			kv = kv.Narrow(0, rows.Start, rows.Len)
		}
		out.kv = append(out.kv, kv)
	}
	return out
}
