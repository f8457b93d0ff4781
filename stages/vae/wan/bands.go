package wan

import (
	"latentbeam/kernels"
	"latentbeam/stages/sequence"
)

// Bands is how the ranks of a group share the rows of a clip that they decode together: every rank has one or more
// rows of the latents, from the first rank down. The nil Bands is that of a device alone.
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

// gather returns the keys and values (t, H W, 2, 1, C) of all positions, of which this rank has those of kv (t, h W, 2,
// 1, C).
func (s *stream) gather(kv kernels.Tensor, w int) kernels.Tensor {
	if s.bands == nil || s.err != nil {
		return kv
	}
	rows := s.bands.rows
	all := s.be.Alloc(s.dt, kv.Dim(0), rows[len(rows)-1].Hi*w, 2, 1, kv.Dim(4))
	parts := make([]kernels.Tensor, len(rows))
	for i, r := range rows {
		parts[i] = all.Narrow(1, r.Lo*w, r.Len()*w)
	}
	s.be.Copy(parts[s.bands.me()], kv)
	s.err = s.bands.group.AllGather("keys", parts)
	return all
}
