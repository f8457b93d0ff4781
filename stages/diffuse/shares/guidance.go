package shares

import (
	"fmt"

	"latentbeam/kernels"
	"latentbeam/stages/nn"
)

// guidance gathers the output tokens (T', patches, K) of every share for all branches: [share][branch].
func (r *Rank) guidance(tokens []kernels.Tensor) ([][]kernels.Tensor, error) {
	out := make([][]kernels.Tensor, len(r.Shares))
	k := r.Outputs()
	for i, s := range r.Shares {
		for range r.Branches {
			out[i] = append(out[i], r.dev.Alloc(r.DType, r.frames, s.patches.Len, k))
		}
	}
	var send, recv []kernels.Part
	for peer := range r.Plan.Ranks {
		send = append(send, r.sendTo(peer, tokens)...)
		recv = append(recv, r.receiveFrom(peer, out)...)
	}
	if r.meets {
		return out, r.group.Exchange("guidance", send, recv)
	}
	if len(send) != len(recv) {
		return nil, fmt.Errorf("the rank has %d outputs for %d places", len(send), len(recv))
	}
	for i := range send {
		r.dev.Copy(recv[i].View, send[i].View)
	}
	return out, nil
}

// sendTo lists the parts of this rank's tokens that a peer needs for its shares.
func (r *Rank) sendTo(peer int, tokens []kernels.Tensor) (out []kernels.Part) {
	for _, s := range r.sharesOf(peer, false) {
		for b := range r.Branches {
			at := s.Element*r.Branches + b
			for i, p := range r.split.Parts() {
				common := overlap(s.patches, p.Patches)
				if at < p.Rows.Start || at >= p.Rows.Start+p.Rows.Len || common.Len == 0 {
					continue
				}
				x := tokens[i].Index(at - p.Rows.Start) // (T', W, K)
				out = append(out, kernels.Part{Peer: peer, View: patchesOf(x, p.Patches.Start, common)})
			}
		}
	}
	return out
}

// receiveFrom lists where the tokens of a peer belong in this rank's shares.
func (r *Rank) receiveFrom(peer int, out [][]kernels.Tensor) (in []kernels.Part) {
	for i, s := range r.Shares {
		for b := range r.Branches {
			for _, c := range r.Plan.Columns(peer) {
				common := overlap(s.patches, nn.Span{Start: c.Lo, Len: c.Len()})
				if c.Element == s.Element*r.Branches+b && common.Len > 0 {
					in = append(in, kernels.Part{Peer: peer, View: patchesOf(out[i][b], s.patches.Start, common)})
				}
			}
		}
	}
	return in
}

// download returns the predictions in the sampler's order: [branch][share] (c_out, T, pixels). z is the length of the latents
// of all branches.
func (r *Rank) download(predictions [][]kernels.Tensor, z int) ([]float32, error) {
	c := r.OutChannels
	if n := z / r.Channels * c; len(r.out) != n {
		r.out = make([]float32, n)
	}
	at := 0
	for b := range r.Branches {
		for i, s := range r.Shares {
			tokens := make([]float32, predictions[i][b].Len())
			if err := r.dev.Download(tokens, predictions[i][b]); err != nil {
				return nil, err
			}
			size := s.Len(c * r.Size.T)
			s.latents(r.out[at:at+size], tokens, c, r.Size.T, r.Patch)
			at += size
		}
	}
	return r.out, r.dev.Wait()
}
