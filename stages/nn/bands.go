package nn

import (
	"latentbeam/kernels"
	"latentbeam/stages/sequence"
)

// AddWindowsShared is AddTemporal with windows for ranks that share the patches of a video. streams, xs and gates hold a tensor
// (n, T, W, C) of type dt for each part of this rank.
//
// Patches are numbered row by row. So a rank has whole bands of windows, and at either end of its part it may have some tokens
// of a band that it shares with other ranks. The ranks of a shared band send each other their keys and values, and each
// computes its own queries. Every rank must call it, in the same order.
func (a SelfAttention) AddWindowsShared(be kernels.Backend, s *Split, dt kernels.DType,
	streams, xs, gates []kernels.Tensor, rope Rope, win Windows) error {
	defer be.Scope()()
	b := &bands{Split: s, a: a, be: be, dt: dt, rope: rope, win: win, size: win.Rows * win.Grid[1]}
	for _, x := range xs {
		b.qkv = append(b.qkv, a.project(be, x)) // (n, T, W, 3, H, D)
		b.out = append(b.out, be.Alloc(dt, x.Dim(0), x.Dim(1), x.Dim(2), a.Heads, a.D))
	}
	b.attendWhole()
	if b.hasShared() {
		if err := b.attendCut(); err != nil {
			return err
		}
	}
	for i := range xs {
		a.addOutput(be, streams[i], b.out[i], gates[i])
	}
	return nil
}

// bands is one call of AddWindowsShared on one rank.
type bands struct {
	*Split
	a        SelfAttention
	be       kernels.Backend
	dt       kernels.DType
	rope     Rope
	win      Windows
	size     int              // patches in a band
	qkv, out []kernels.Tensor // of each part: (n, T, W, 3, H, D), (n, T, W, H, D)
}

// columnsOf returns the patches of each row that a rank has, without padding.
func (b *bands) columnsOf(rank int) (spans []sequence.ElementRange) {
	for _, c := range b.Plan.Columns(rank) {
		c.Range = c.And(sequence.Range{Hi: b.Plan.Shape.Positions})
		if c.Len() > 0 {
			spans = append(spans, c)
		}
	}
	return spans
}

// whole returns the patches of r in bands that lie completely in r.
func (b *bands) whole(r sequence.Range) sequence.Range {
	all := b.Plan.Shape.Positions
	w := sequence.Range{Lo: min((r.Lo+b.size-1)/b.size*b.size, all), Hi: r.Hi / b.size * b.size}
	if r.Hi == all {
		w.Hi = all
	}
	return w
}

// hasShared reports whether any band is shared by several ranks.
func (b *bands) hasShared() bool {
	for rank := range b.Plan.Ranks {
		for _, c := range b.columnsOf(rank) {
			if b.whole(c.Range) != c.Range {
				return true
			}
		}
	}
	return false
}

// attendWhole computes the windows of whole bands. They need no data of other ranks.
func (b *bands) attendWhole() {
	for i, p := range b.parts {
		span := sequence.Range{Lo: p.Patches.Start, Hi: p.Patches.Start + p.Patches.Len}
		w := b.whole(span.And(sequence.Range{Hi: b.Plan.Shape.Positions}))
		if w.Len() == 0 {
			continue
		}
		at, win := w.Lo-span.Lo, b.win
		win.Grid[0] = w.Len() / win.Grid[1]
		b.a.attendWindows(b.be, b.out[i].Narrow(2, at, w.Len()), b.qkv[i].Narrow(2, at, w.Len()), b.rope, win)
	}
}

// piece is a rank's tokens in one shared band of one row.
type piece struct {
	row, band int
	patches   sequence.Range
}

// cutOf lists a rank's pieces of shared bands, in order.
func (b *bands) cutOf(rank int) (out []piece) {
	for _, c := range b.columnsOf(rank) {
		w := b.whole(c.Range)
		for band := c.Lo / b.size; band*b.size < c.Hi; band++ {
			r := c.And(sequence.Range{Lo: band * b.size, Hi: (band + 1) * b.size})
			if w.And(r) != r || w.Len() == 0 {
				out = append(out, piece{c.Element, band, r})
			}
		}
	}
	return out
}

// tokens returns the view (T, patches, ...) of a piece of this rank in xs.
func (b *bands) tokens(xs []kernels.Tensor, p piece) kernels.Tensor {
	return b.columns(xs, p.row, sequence.Range{Hi: b.Plan.Shape.Frames}, p.patches)
}

// attendCut exchanges keys and values of the shared bands, and computes this rank's queries in them.
func (b *bands) attendCut() error {
	defer b.be.Scope()()
	me, mine := b.Group.Rank(), b.cutOf(b.Group.Rank())
	heads, d := b.a.Heads, b.Plan.Shape.HeadSize
	full := make([]kernels.Tensor, len(mine)) // (T, patches of the band, 3, H, D)
	var send, recv []kernels.Part
	for i, p := range mine {
		n := min(b.size, b.Plan.Shape.Positions-p.band*b.size)
		full[i] = b.be.Alloc(b.dt, b.Plan.Shape.Frames, n, 3, heads, d)
		b.be.Copy(full[i].Narrow(1, p.patches.Lo-p.band*b.size, p.patches.Len()), b.tokens(b.qkv, p))
	}
	for peer := range b.Plan.Ranks {
		if peer == me {
			continue
		}
		for _, theirs := range b.cutOf(peer) {
			for i, p := range mine {
				if p.row != theirs.row || p.band != theirs.band {
					continue
				}
				foreign := full[i].Narrow(1, theirs.patches.Lo-p.band*b.size, theirs.patches.Len())
				b.Fill(b.be, foreign.Narrow(2, 0, 1)) // queries of other ranks, not used here
				recv = append(recv, kernels.Part{Peer: peer, View: foreign.Narrow(2, 1, 2)})
				send = append(send, kernels.Part{Peer: peer, View: b.tokens(b.qkv, p).Narrow(2, 1, 2)})
			}
		}
	}
	if err := b.Group.Exchange("bands", send, recv); err != nil {
		return err
	}
	for i, p := range mine {
		b.attendBand(full[i], p)
	}
	return nil
}

// attendBand computes the queries of piece p in all windows of its band. full holds the band's tokens (T, patches, 3, H, D).
func (b *bands) attendBand(full kernels.Tensor, p piece) {
	t, cols, heads, d := full.Dim(0), b.win.Grid[1], b.a.Heads, full.Dim(4)
	rows := full.Dim(1) / cols
	grid := full.Reshape(t, rows, cols, 3*heads, d)
	first := p.patches.Lo - p.band*b.size
	own := sequence.Range{Lo: first, Hi: first + p.patches.Len()}
	for col := 0; col < cols; col += b.win.Cols {
		b.attendOne(grid.Narrow(2, col, min(b.win.Cols, cols-col)), col, own, p)
	}
}

// attendOne computes one window (T, rows, w, 3H, D) that starts at column col, for the band's tokens own.
func (b *bands) attendOne(window kernels.Tensor, col int, own sequence.Range, p piece) {
	defer b.be.Scope()()
	t, rows, w, heads, d := window.Dim(0), window.Dim(1), window.Dim(2), b.a.Heads, window.Dim(4)
	cols := b.win.Grid[1]
	near := b.be.Alloc(b.dt, 1, rows, w, t, 3*heads, d)
	b.be.Copy(near.Index(0), window.Permute(1, 2, 0, 3, 4))
	near = near.Reshape(1, rows, w, t, 3, heads, d)
	b.a.rotate(b.be, near, b.rope.Narrow(0, Span{Len: rows}).Narrow(1, Span{Len: w}))
	near = near.Reshape(1, rows*w*t, 3, heads, d)
	part := func(i int) kernels.Tensor { return near.Narrow(2, i, 1).Reshape(1, rows*w*t, heads, d) }
	for r := range rows { // the tokens of one row in the window are adjacent
		mine := own.And(sequence.Range{Lo: r*cols + col, Hi: r*cols + col + w})
		n := mine.Len()
		if n == 0 {
			continue
		}
		at := (r*w + mine.Lo - r*cols - col) * t
		result := b.be.Alloc(b.dt, 1, n*t, heads, d)
		b.be.Attention(result, part(0).Narrow(1, at, n*t), part(1), part(2),
			kernels.AttentionSpec{Scale: AttentionScale(d)})
		patches := sequence.Range{Lo: p.band*b.size + mine.Lo, Hi: p.band*b.size + mine.Hi}
		out := b.tokens(b.out, piece{p.row, p.band, patches}) // (T, n, H, D)
		b.be.Copy(out, result.Reshape(n, t, heads, d).Permute(1, 0, 2, 3))
	}
}
