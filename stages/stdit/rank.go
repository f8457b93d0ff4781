package stdit

import (
	"context"
	"fmt"

	"latentbeam/kernels"
	"latentbeam/stages"
	"latentbeam/stages/nn"
	"latentbeam/stages/sequence"
)

// rank is the network applied to one rank's columns of a batch. Rows of the forward are (element, branch):
// the prompt, then under guidance the null text, or one of them alone.
type rank struct {
	dev      kernels.Backend
	model    *Model
	group    *kernels.Group
	plan     *sequence.Plan
	split    *nn.Split
	size     Size
	branches int // rows of an element here
	branch   int // which one the first of them is

	rows     nn.Span // that this rank has columns of; without any, row 0 stands in
	prepared *Prepared
	parts    []*Prepared // of split.Parts()
	shares   []share
	everyone [][]share // of all ranks, once they are asked for
	meets    bool
	steps    int // done
	out      []float32
}

// newRank prepares the texts and conditions of g's rank, for so many branches of each element from the given one on.
func newRank(dev kernels.Backend, g *kernels.Group, plan *sequence.Plan, net *evaluation,
	batch []*stages.Element, branch, branches int) (*rank, error) {
	g.Follow(plan.Hash)
	r := &rank{dev: dev, model: net.model, group: g, plan: plan, split: nn.NewSplit(plan, g), size: net.size,
		branches: branches, branch: branch, rows: nn.Span{Len: 1}, meets: branches > 1 && meets(plan, branches)}
	parts := r.split.Parts()
	if len(parts) > 0 {
		last := parts[len(parts)-1].Rows
		r.rows = nn.Span{Start: parts[0].Rows.Start, Len: last.Start + last.Len - parts[0].Rows.Start}
	}
	var rows []row
	for i := range r.rows.Len {
		at := r.rows.Start + i
		rows = append(rows, row{batch[at/branches], branch + at%branches})
	}
	var err error
	if r.prepared, err = net.prepare(rows); err != nil {
		return nil, err
	}
	for _, p := range parts {
		r.parts = append(r.parts, r.prepared.of(r.local(p.Rows), p.Patches))
	}
	r.shares = sharesOf(plan, branches, g.Rank(), false)
	for i := range r.shares {
		r.shares[i].locate(r.size, r.model.PatchSize)
	}
	return r, nil
}

// local counts rows of the batch from this rank's first.
func (r *rank) local(rows nn.Span) nn.Span {
	return nn.Span{Start: rows.Start - r.rows.Start, Len: rows.Len}
}

// evaluate is the network as the sampler of this rank's shares sees it: rows are its branches times its
// shares.
func (r *rank) evaluate(_ context.Context, rows, timesteps []float32, generated []bool) ([]float32, error) {
	r.next()
	defer r.dev.Scope()()
	s := r.embed(rows[:len(rows)/r.branches])
	c := r.conditions(timesteps[:len(timesteps)/r.branches], generated[:len(generated)/r.branches])
	tokens, err := r.advance(s, c, true)
	if err != nil {
		return nil, err
	}
	return r.predictions(tokens, len(rows))
}

// next begins the next evaluation.
func (r *rank) next() {
	r.group.Step(r.steps)
	r.steps++
}

// instant is what an evaluation depends on beside the latents: the timestep, that of all rows, and the frames
// of each row that are being denoised, nil for all.
type instant struct {
	timestep  float32
	generated []bool
}

// conditions takes those of the sampler's rows of one branch: all have the same.
func (r *rank) conditions(timesteps []float32, generated []bool) instant {
	return instant{timesteps[0], r.marks(generated, len(timesteps))}
}

// advance runs this rank's blocks on the stream in place, and where they are the last the final layer: it
// returns the output tokens (n, T', W, K) of every part.
func (r *rank) advance(s *stream, c instant, last bool) ([]kernels.Tensor, error) {
	f, err := newFrames(c.generated, r.rows.Len, r.prepared.times.Len)
	if err != nil {
		return nil, err
	}
	times := make([]float32, r.rows.Len)
	for i := range times {
		times[i] = c.timestep
	}
	t := r.model.timestep.Forward(r.dev, r.model.DType, f.timesteps(r.model.rounded(times))) // (B or 2B, C)
	if t, err = r.model.net.forward(r.dev, s, t, f); err != nil || !last {
		return nil, err
	}
	tokens := make([]kernels.Tensor, len(s.parts)) // (n, T', W, K)
	for i := range s.parts {
		tokens[i] = r.model.final.forward(r.dev, &s.parts[i], t, f)
	}
	return tokens, nil
}

// predictions returns what the sampler gets for the output tokens; z is the length of the latents of all
// branches.
func (r *rank) predictions(tokens []kernels.Tensor, z int) ([]float32, error) {
	all, err := r.guidance(tokens)
	if err != nil {
		return nil, err
	}
	return r.download(all, z)
}

// marks turns the marks of generated frames of shares, or of one that stands in, into those of rows.
func (r *rank) marks(generated []bool, shares int) []bool {
	if len(generated) == 0 {
		return nil
	}
	frames := len(generated) / shares
	var out []bool
	for i := range r.rows.Len {
		at := 0
		for j, s := range r.shares {
			if s.element == (r.rows.Start+i)/r.branches {
				at = j
			}
		}
		out = append(out, generated[at*frames:][:frames]...)
	}
	return out
}

// embed makes the stream of latents z, the shares one after the other.
func (r *rank) embed(z []float32) *stream {
	m := r.model
	s := &stream{p: r.prepared, dt: m.DType, split: r.split}
	for i, p := range r.split.Parts() {
		t, c := r.prepared.times.Len, m.HiddenSize
		x := r.dev.Alloc(m.DType, p.Rows.Len, t, p.Patches.Len, c) // (n, T', W, C)
		n := max(0, min(p.Patches.Len, r.plan.Shape.Positions-p.Patches.Start))
		if n < p.Patches.Len {
			r.split.Fill(r.dev, x.Narrow(2, n, p.Patches.Len-n))
		}
		if n > 0 {
			r.embedPart(x.Narrow(2, 0, n), z, p, r.parts[i])
		}
		s.parts = append(s.parts, part{x, r.local(p.Rows), r.parts[i]})
	}
	return s
}

// embedPart writes the tokens x (n, T', W, C) of a part.
func (r *rank) embedPart(x kernels.Tensor, z []float32, p nn.Part, prepared *Prepared) {
	defer r.dev.Scope()()
	m := r.model
	var vectors []float32
	for i := range p.Rows.Len {
		at := 0
		for _, s := range r.shares {
			size := m.InChannels * r.size.T * len(s.pixels)
			here := s.patches == nn.Span{Start: p.Patches.Start, Len: x.Dim(2)}
			if here && s.element == (p.Rows.Start+i)/r.branches {
				vectors = append(vectors, s.vectors(z[at:at+size], m.InChannels, r.size.T, m.PatchSize)...)
				break
			}
			at += size
		}
	}
	v := r.dev.Alloc(m.DType, x.Dim(0), x.Dim(1), x.Dim(2), m.InChannels*m.PatchSize.Size())
	r.dev.Upload(v, vectors)
	r.dev.Linear(x, v, m.patch.Proj.W, kernels.Epilogue{Bias: m.patch.Proj.B})
	prepared.addGiven(r.dev, x)
	r.dev.Binary(x, x, prepared.spatial.Expand(x.Shape...), kernels.Add)
}

// guidance brings the output tokens (T', patches, K) of every share together, branch by branch:
// [share][branch].
func (r *rank) guidance(tokens []kernels.Tensor) ([][]kernels.Tensor, error) {
	out := make([][]kernels.Tensor, len(r.shares))
	k := r.model.PatchSize.Size() * r.model.OutChannels()
	for i, s := range r.shares {
		for range r.branches {
			out[i] = append(out[i], r.dev.Alloc(r.model.DType, r.prepared.times.Len, s.patches.Len, k))
		}
	}
	var send, recv []kernels.Part
	for peer := range r.plan.Ranks {
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

// sendTo lists what a rank takes from this one's tokens for its shares.
func (r *rank) sendTo(peer int, tokens []kernels.Tensor) (out []kernels.Part) {
	for _, s := range sharesOf(r.plan, r.branches, peer, false) {
		for b := range r.branches {
			at := s.element*r.branches + b
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

// receiveFrom lists where this rank's shares take what a rank sends.
func (r *rank) receiveFrom(peer int, out [][]kernels.Tensor) (in []kernels.Part) {
	for i, s := range r.shares {
		for b := range r.branches {
			for _, c := range r.plan.Columns(peer) {
				common := overlap(s.patches, nn.Span{Start: c.Lo, Len: c.Len()})
				if c.Element == s.element*r.branches+b && common.Len > 0 {
					in = append(in, kernels.Part{Peer: peer, View: patchesOf(out[i][b], s.patches.Start, common)})
				}
			}
		}
	}
	return in
}

// download returns the predictions as the sampler takes them: [branch][share] (c_out, T, pixels). z is the
// length of the latents of all branches.
func (r *rank) download(predictions [][]kernels.Tensor, z int) ([]float32, error) {
	c := r.model.OutChannels()
	if n := z / r.model.InChannels * c; len(r.out) != n {
		r.out = make([]float32, n)
	}
	at := 0
	for b := range r.branches {
		for i, s := range r.shares {
			tokens := make([]float32, predictions[i][b].Len())
			if err := r.dev.Download(tokens, predictions[i][b]); err != nil {
				return nil, err
			}
			size := c * r.size.T * len(s.pixels)
			s.latents(r.out[at:at+size], tokens, c, r.size.T, r.model.PatchSize)
			at += size
		}
	}
	return r.out, r.dev.Wait()
}
