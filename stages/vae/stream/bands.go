package stream

import (
	"latentbeam/kernels"
	"latentbeam/stages/sequence"
)

// Bands is how the ranks of a group share the rows of a clip: every rank has one or more rows of the latents, from the
// first rank down. The nil Bands is that of a device alone.
type Bands struct {
	group *kernels.Group
	rows  []sequence.Range
}

// NewBands returns the bands of a group; rows are those of the latents that each rank has, in order.
func NewBands(group *kernels.Group, rows []sequence.Range) *Bands { return &Bands{group, rows} }

func (b *Bands) me() int { return b.group.Rank() }

// above returns how many rows this rank gets from the rank above it, and below from that below.
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

// AllRows returns the values (t, H w, ...) of all positions, of which this rank has those of own (t, h w, ...); the rows
// are those of the latents, w is their length. A device alone gets its own back.
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

// swap exchanges the rows at the edges of x (1, T, rows, W, C) with neighbours. x holds above and below of their rows
// around its own.
func (s *Stream) swap(x kernels.Tensor, e edges) {
	if e.above+e.below == 0 && !e.sends(s.bands) || s.Err != nil {
		return
	}
	rows := x.Dim(2)
	var send, recv []kernels.Part
	if s.bands.above() > 0 { // what is above has below what is here
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

// edges is how many rows around its own a convolution sees (up and down), and how many of them are neighbours' (above
// and below); the rest are zeros.
type edges struct{ up, down, above, below int }

// sends reports whether neighbours see rows of this rank.
func (e edges) sends(b *Bands) bool {
	return e.up > 0 && b.below() > 0 || e.down > 0 && b.above() > 0
}

// edges of a convolution of size x size: with a stride of 2 it sees one row below, else those on both sides.
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
