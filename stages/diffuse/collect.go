package diffuse

import (
	"fmt"

	"latentbeam/kernels"
)

// collect brings the latents of all shares to rank 0, or to everyone, where the elements get them.
func (j *job) collect(r *rank, z []float32, everyone bool) error {
	full, err := j.gather(r, "latents", z, everyone)
	if err != nil || full == nil {
		return err
	}
	n := j.values()
	for i, e := range j.batch {
		j.finish(e, full[i*n:(i+1)*n:(i+1)*n])
	}
	return nil
}

// gather brings values of all shares to rank 0, or to everyone, as those of whole elements; nil for the others.
func (j *job) gather(r *rank, op string, z []float32, everyone bool) ([]float32, error) {
	defer r.dev.Scope()()
	var send, recv []kernels.Part
	at := 0
	mine := j.sharesOf(r.plan, r.branches, r.group.Rank(), true, j.size)
	for _, s := range r.shares {
		n := j.planes() * len(s.pixels)
		if len(mine) > 0 && mine[0].element == s.element && mine[0].patches == s.patches {
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
	var shares []share
	gets := everyone || r.group.Rank() == 0
	if gets {
		for peer := range r.plan.Ranks {
			for _, s := range j.sharesOf(r.plan, r.branches, peer, true, j.size) {
				s.locate(j.size, &j.Description)
				x := r.dev.Alloc(kernels.F32, j.planes()*len(s.pixels))
				recv = append(recv, kernels.Part{Peer: peer, View: x})
				shares = append(shares, s)
			}
		}
	}
	if err := r.group.Exchange(op, send, recv); err != nil || !gets {
		return nil, err
	}
	return j.put(r.dev, shares, recv)
}

// put returns the values of whole elements that have come in as those of shares.
func (j *job) put(dev kernels.Backend, shares []share, from []kernels.Part) ([]float32, error) {
	n := j.values()
	full := make([]float32, len(j.batch)*n)
	for i, s := range shares {
		z := make([]float32, from[i].View.Len())
		if err := dev.Download(z, from[i].View); err != nil {
			return nil, err
		}
		s.put(full[s.element*n:][:n], z, j.planes())
	}
	return full, nil
}
