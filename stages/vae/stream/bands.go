package stream

import (
	"latentbeam/kernels"
	"latentbeam/stages/sequence"
)

// Bands says how the ranks of a group share the rows of a clip. Every rank has one or more latent rows, ordered from top to
// bottom by rank. Nil means that this device has all rows.
type Bands struct {
	group *kernels.Group
	rows  []sequence.Range
}

// NewBands returns the bands of a group. rows has the latent rows of each rank, in order.
func NewBands(group *kernels.Group, rows []sequence.Range) *Bands { return &Bands{group, rows} }

func (b *Bands) me() int { return b.group.Rank() }

// above returns how many rows this rank receives from the rank above it. below returns how many it receives from the rank
// below.
func (b *Bands) above() int {
	if b == nil || b.me() == 0 {
		return 0
	}
	return 1
}

func (b *Bands) below() int {
	if b == nil || b.me() == len(b.rows)-1 {
		return 0
	}
	return 1
}

// AllRows gathers own (t, h*w, ...) of every rank into (t, H*w, ...). h and H count latent rows, w is a row's length. Without
// bands it returns own.
func (s *Stream) AllRows(own kernels.Tensor, w int) kernels.Tensor {
	if s.bands == nil || s.Err != nil {
		return own
	}
	rows := s.bands.rows
	shape := append([]int(nil), own.Shape...)
	shape[1] = rows[len(rows)-1].Hi * w
	all := s.Alloc(s.DType, shape...)
	parts := make([]kernels.Tensor, len(rows))
	for i, r := range rows {
		parts[i] = all.Narrow(1, r.Lo*w, r.Len()*w)
	}
	s.Copy(parts[s.bands.me()], own)
	s.Err = s.bands.group.AllGather("keys", parts)
	return all
}

// swap exchanges the edge rows of x (1, T, rows, W, C) with the neighbouring ranks. x has room for above and below rows of the
// neighbours around its own rows.
func (s *Stream) swap(x kernels.Tensor, e edges) {
	if e.above+e.below == 0 && !e.sends(s.bands) || s.Err != nil {
		return
	}
	rows := x.Dim(2)
	var send, recv []kernels.Part
	if s.bands.above() > 0 { // the rank above receives below rows from here
		if e.up > 0 {
			recv = append(recv, kernels.Part{Peer: s.bands.me() - 1, View: x.Narrow(2, 0, 1)})
		}
		if e.down > 0 {
			send = append(send, kernels.Part{Peer: s.bands.me() - 1, View: x.Narrow(2, e.above, 1)})
		}
	}
	if s.bands.below() > 0 {
		if e.up > 0 {
			send = append(send, kernels.Part{Peer: s.bands.me() + 1, View: x.Narrow(2, rows-e.below-1, 1)})
		}
		if e.down > 0 {
			recv = append(recv, kernels.Part{Peer: s.bands.me() + 1, View: x.Narrow(2, rows-1, 1)})
		}
	}
	s.Err = s.bands.group.Exchange("rows", send, recv)
}

// edges says how many rows around its own a convolution sees (up and down), and how many of these belong to neighbours (above
// and below). The rest are zeros.
type edges struct{ up, down, above, below int }

// sends reports whether neighbours need rows of this rank.
func (e edges) sends(b *Bands) bool {
	return e.up > 0 && b.below() > 0 || e.down > 0 && b.above() > 0
}

// edges returns the edges of a convolution of size x size. With a stride of 2 it sees one row below, otherwise rows on both
// sides.
func (b *Bands) edges(size, stride int) edges {
	var e edges
	if e.down = size / 2; stride == 1 {
		e.up = size / 2
	}
	if e.up > 0 {
		e.above = b.above()
	}
	if e.down > 0 {
		e.below = b.below()
	}
	return e
}
