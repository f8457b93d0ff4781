package diffuse

import (
	"context"
	"fmt"

	"latentbeam/internal/plan"
	"latentbeam/internal/plan/layout"
	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/nn"
	"latentbeam/stages/sampler"
	"latentbeam/stages/sequence"
)

// Width is what sequence_parallel says, times the ranks that the weights are cut over.
func (s *stage) Width(*schemas.PromptRow) int {
	if s.Shards() > 1 {
		return s.grid().Ranks()
	}
	return int(s.Options.SequenceParallel)
}

// RunSet samples the batch on a set of devices, each a rank with its share of the columns. Rank 0 gives the
// elements their latents.
func (s *stage) RunSet(ctx context.Context, set *stages.Set, batch []*stages.Element) error {
	if set.Ranks() == 1 {
		return s.Run(ctx, set.Devices[0], batch)
	}
	grid := s.grid()
	if set.Ranks() != grid.Ranks() {
		grid = plan.Grid{Sequence: set.Ranks(), Tensor: 1, Pipeline: 1}
	}
	if s.inTurn(&batch[0].Row) || grid.Sequence == 1 && grid.Pipeline == 1 {
		return s.runAlike(ctx, set, grid, batch)
	}
	j, err := s.newJob(batch, 0)
	if err != nil || j == nil {
		return err
	}
	speeds := grid.Speeds(set.Speeds)
	if grid.Pipeline > 1 {
		return nn.OnGrid(ctx, set, grid, func(ctx context.Context, seat *nn.Seat) error {
			return fly(ctx, seat, speeds, j.groups(grid), false)
		})
	}
	plan, err := j.plan(speeds, j.branches())
	if err != nil {
		return err
	}
	return nn.OnGrid(ctx, set, grid, func(ctx context.Context, seat *nn.Seat) error {
		return j.run(ctx, seat, plan, false)
	})
}

// branches is how many rows of the forward an element has.
func (j *job) branches() int {
	switch {
	case j.image != nil:
		return 3
	case j.guided:
		return 2
	}
	return 1
}

// plan says which rank does what of so many branches: the allowed way to share with the shortest predicted step, as
// `plan` shows it. It depends on the speeds alone, so every process of a set comes to the same.
func (j *job) plan(speeds []float64, branches int) (*sequence.Plan, error) {
	cost, err := j.Cost(&j.batch[0].Row)
	if err != nil {
		return nil, err
	}
	cost.Split.Shape.Batch = branches
	f, err := layout.Cheapest(*cost.Split, len(j.batch), layout.Ranks(speeds))
	return f.Plan, err
}

// run is one rank's part of the batch. Rank 0 gives the elements their latents, or every rank to its own.
func (j *job) run(ctx context.Context, seat *nn.Seat, plan *sequence.Plan, everyone bool) error {
	defer seat.Dev.Scope()()
	r, err := j.rank(seat, plan, 0, j.branches())
	if err != nil {
		return err
	}
	z, b := j.shares(r)
	if err := j.sampler.Sample(ctx, b, z, r.evaluate, j.noiseOf(r), nil); err != nil || !seat.First() && !everyone {
		return err
	}
	return j.collect(r, z, everyone)
}

// rank is what one rank has of the batch in so many branches from the given one on: its share of the columns, and of
// the model its heads and blocks.
func (j *job) rank(seat *nn.Seat, plan *sequence.Plan, branch, branches int) (*rank, error) {
	model, err := j.Part(seat.Dev, seat.Stage)
	if err != nil {
		return nil, err
	}
	heads, err := seat.Cut.Heads(j.Heads)
	if err != nil {
		return nil, err
	}
	if heads.Len() < j.Heads {
		if plan, err = plan.WithHeads(heads.Len()); err != nil {
			return nil, err
		}
	}
	return j.newRank(seat.Dev, seat.Sequence, plan, model, branch, branches)
}

// noiseOf is the noise of a rank's shares.
func (j *job) noiseOf(r *rank) sampler.Noise {
	full := make([]float32, j.values())
	return func(d sampler.Draw, i int, dst []float32) {
		if len(r.shares) > 0 {
			j.noise(full, j.batch[r.shares[i].element], d)
			r.shares[i].pick(dst, full, j.planes())
		}
	}
}

// shares returns the initial latents of a rank's shares as a batch of the sampler. A rank without shares
// samples one pixel that nobody looks at, so that it takes part in every step.
func (j *job) shares(r *rank) (z []float32, b sampler.Batch) {
	b = sampler.Batch{N: len(r.shares), Channels: j.Channels, Frames: j.size.T, Gather: r.gather}
	full := make([]float32, j.values())
	for _, s := range r.shares {
		n := len(s.pixels)
		z = append(z, make([]float32, j.planes()*n)...)
		j.start(full, j.batch[s.element])
		s.pick(z[len(z)-j.planes()*n:], full, j.planes())
		b.Sizes = append(b.Sizes, j.size.T*n)
		b.Guidance = append(b.Guidance, float32(j.batch[s.element].Row.Guidance()))
		if j.masks != nil {
			b.Masks = append(b.Masks, j.masks[s.element*j.size.T:][:j.size.T]...)
		}
	}
	if b.N == 0 {
		b.N, b.Sizes, b.Guidance, b.Idle = 1, []int{j.size.T}, []float32{1}, true
		z = make([]float32, j.planes())
	}
	if j.branches() == 1 {
		b.Guidance = nil
	}
	if j.image != nil {
		b.Image = j.imageOf(r.shares)
	}
	return z, b
}

// collect brings the latents of all shares to rank 0, or to everyone, where the elements get them.
func (j *job) collect(r *rank, z []float32, everyone bool) error {
	var send, recv []kernels.Part
	at := 0
	mine := sharesOf(r.plan, r.branches, r.group.Rank(), true)
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
		return fmt.Errorf("denoise: rank %d has no latents for %d of its shares", r.group.Rank(), len(mine))
	}
	var shares []share
	gets := everyone || r.group.Rank() == 0
	if gets {
		for peer := range r.plan.Ranks {
			for _, s := range sharesOf(r.plan, r.branches, peer, true) {
				s.locate(j.size, j.Patch)
				x := r.dev.Alloc(kernels.F32, j.planes()*len(s.pixels))
				recv = append(recv, kernels.Part{Peer: peer, View: x})
				shares = append(shares, s)
			}
		}
	}
	if err := r.group.Exchange("latents", send, recv); err != nil || !gets {
		return err
	}
	return j.put(r.dev, shares, recv)
}

// put gives the elements the latents that have come in.
func (j *job) put(dev kernels.Backend, shares []share, from []kernels.Part) error {
	n := j.values()
	full := make([]float32, len(j.batch)*n)
	for i, s := range shares {
		z := make([]float32, from[i].View.Len())
		if err := dev.Download(z, from[i].View); err != nil {
			return err
		}
		s.put(full[s.element*n:][:n], z, j.planes())
	}
	for i, e := range j.batch {
		j.finish(e, full[i*n:(i+1)*n:(i+1)*n])
	}
	return nil
}
