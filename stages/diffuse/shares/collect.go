package shares

import (
	"fmt"

	"latentbeam/kernels"
)

// Collect gathers the values of all shares as whole elements, on rank 0, or on every rank if everyone is set. Other ranks get
// nil.
func (r *Rank) Collect(op string, z []float32, everyone bool) ([]float32, error) {
	defer r.dev.Scope()()
	var send, recv []kernels.Part
	at := 0
	mine := r.coveringShares()[r.group.Rank()]
	for _, s := range r.Shares {
		n := s.Len(r.planes())
		if len(mine) > 0 && mine[0].Element == s.Element && mine[0].patches == s.patches {
			x := r.dev.Alloc(kernels.F32, n)
			r.dev.Upload(x, z[at:at+n])
			for peer := range r.group.Size() {
				if peer == 0 || everyone {
					send = append(send, kernels.Part{Peer: peer, View: x})
				}
			}
			mine = mine[1:]
		}
		at += n
	}
	if len(mine) > 0 {
		return nil, fmt.Errorf("denoise: rank %d has no latents for %d of its shares", r.group.Rank(), len(mine))
	}
	gets := everyone || r.group.Rank() == 0
	if gets {
		for peer, shares := range r.coveringShares() {
			for _, s := range shares {
				recv = append(recv, kernels.Part{Peer: peer, View: r.dev.Alloc(kernels.F32, s.Len(r.planes()))})
			}
		}
	}
	if err := r.group.Exchange(op, send, recv); err != nil || !gets {
		return nil, err
	}
	return r.assemble(recv)
}

// assemble returns whole elements, made from the received values of all shares.
func (r *Rank) assemble(from []kernels.Part) ([]float32, error) {
	n := r.Channels * r.Size.Len()
	full := make([]float32, len(r.Rows)/r.Branches*n)
	for _, shares := range r.coveringShares() {
		for _, s := range shares {
			z := make([]float32, from[0].View.Len())
			if err := r.dev.Download(z, from[0].View); err != nil {
				return nil, err
			}
			s.scatter(full[s.Element*n:][:n], z, r.planes())
			from = from[1:]
		}
	}
	return full, nil
}
