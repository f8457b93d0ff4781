package diffuse

import (
	"context"
	"sync"

	"latentbeam/internal/plan/layout"
	"latentbeam/kernels"
	"latentbeam/stages/nn"
	"latentbeam/stages/sequence"
)

// rank is the network applied to one rank's columns of a job. Rows of the forward are (element, branch):
// the prompt, then under guidance the null text, or one of them alone.
type rank struct {
	j        *job
	dev      kernels.Backend
	group    *kernels.Group
	plan     *sequence.Plan
	split    *nn.Split
	frames   int // T'
	branches int // rows of an element here
	branch   int // which one the first of them is

	rows     nn.Span // that this rank has columns of; without any, row 0 stands in
	batch    Batch
	shares   []share
	everyone [][]share // of all ranks, once they are asked for
	meets    bool
	steps    int // done
	out      []float32
}

// ranks returns the shares of a rank of a set in the batch: one for so many branches together, each with its columns and
// of the model its heads and blocks.
func (j *job) ranks(seat *nn.Seat, speeds []float64, together int) (out []*rank, err error) {
	plan, err := j.plan(speeds, together)
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
	model, err := j.part(seat.Dev, seat.Stage)
	for branch := 0; err == nil && branch < j.branches(); branch += together {
		var r *rank
		r, err = j.newRank(seat.Dev, seat.Sequence, plan, model, branch, together)
		out = append(out, r)
	}
	return out, err
}

// plans are those of a job by the branches that go together, once they are made.
type plans struct {
	mu sync.Mutex
	of map[int]*sequence.Plan
}

// plan says which rank does what of so many branches: the allowed way to share with the shortest predicted step, as
// `plan` shows it. It depends on the speeds alone, so every process of a set comes to the same.
func (j *job) plan(speeds []float64, branches int) (*sequence.Plan, error) {
	j.plans.mu.Lock()
	defer j.plans.mu.Unlock()
	if plan, ok := j.plans.of[branches]; ok {
		return plan, nil
	}
	cost, err := j.Cost(&j.batch[0].Row)
	if err != nil {
		return nil, err
	}
	cost.Split.Shape.Batch = branches
	f, err := layout.Cheapest(*cost.Split, len(j.batch), layout.Ranks(speeds))
	if err == nil {
		j.plans.of = map[int]*sequence.Plan{branches: f.Plan}
	}
	return f.Plan, err
}

// newRank prepares the texts and conditions of g's rank, for so many branches of each element from the given one on.
func (j *job) newRank(dev kernels.Backend, g *kernels.Group, plan *sequence.Plan, model Model, branch, branches int) (
	*rank, error) {
	g.Follow(plan.Hash)
	r := &rank{j: j, dev: dev, group: g, plan: plan, split: nn.NewSplit(plan, g), frames: plan.Shape.Frames,
		branches: branches, branch: branch, rows: nn.Span{Len: 1}, meets: branches > 1 && plan.Meets(branches)}
	parts := r.split.Parts()
	if len(parts) > 0 {
		last := parts[len(parts)-1].Rows
		r.rows = nn.Span{Start: parts[0].Rows.Start, Len: last.Start + last.Len - parts[0].Rows.Start}
	}
	rows := &Rows{Size: j.size, Box: j.Box, Split: r.split, Given: j.given()}
	for i := range r.rows.Len {
		at := r.rows.Start + i
		rows.Rows = append(rows.Rows, Row{j.batch[at/branches], branch + at%branches})
	}
	for _, p := range parts {
		p.Rows.Start -= r.rows.Start
		rows.Parts = append(rows.Parts, p)
	}
	var err error
	if r.batch, err = model.Prepare(dev, rows); err != nil {
		return nil, err
	}
	r.shares = j.sharesOf(plan, branches, g.Rank(), false, j.size)
	for i := range r.shares {
		r.shares[i].locate(j.size, &j.Description)
	}
	return r, nil
}

// sample samples the shares. Then the first rank gives the elements their latents, or with alike every rank to its own.
func (r *rank) sample(ctx context.Context, first, alike bool, v *saver) error {
	z, b := r.j.shares(r)
	defer v.wait()
	if first {
		b.After = v.shares(r, z)
	}
	if err := r.j.sampler.Sample(ctx, b, z, r.evaluate, r.j.noiseOf(r), r.j.progress(ctx)); err != nil || !first && !alike {
		return err
	}
	return r.j.collect(r, z, alike)
}

// evaluate is the network as the sampler of this rank's shares sees it: rows are its branches times its
// shares.
func (r *rank) evaluate(_ context.Context, rows, timesteps []float32, generated []bool) ([]float32, error) {
	r.next()
	defer r.dev.Scope()()
	xs := r.streams()
	r.embed(xs, rows[:len(rows)/r.branches])
	at := r.instant(timesteps[:len(timesteps)/r.branches], generated[:len(generated)/r.branches])
	tokens, err := r.batch.Advance(xs, at, true)
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

// instant takes the timesteps and marks of the sampler's rows of one branch, which has the same timestep for all.
func (r *rank) instant(timesteps []float32, generated []bool) Instant {
	return r.at(timesteps[0], r.marks(generated, len(timesteps)))
}

// at is the instant of a timestep of all rows of this rank.
func (r *rank) at(timestep float32, generated []bool) Instant {
	times := make([]float32, r.rows.Len)
	for i := range times {
		times[i] = timestep
	}
	return Instant{times, generated}
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

// streams returns memory for the tokens of all parts, (n, T', W, C) each.
func (r *rank) streams() (xs []kernels.Tensor) {
	for _, p := range r.split.Parts() {
		xs = append(xs, r.dev.Alloc(r.j.DType, p.Rows.Len, r.frames, p.Patches.Len, r.j.Hidden))
	}
	return xs
}

// embed writes the tokens xs of all parts that latents z begin with, the shares one after the other.
func (r *rank) embed(xs []kernels.Tensor, z []float32) {
	for i, p := range r.split.Parts() {
		n := max(0, min(p.Patches.Len, r.plan.Shape.Positions-p.Patches.Start))
		if n < p.Patches.Len {
			r.split.Fill(r.dev, xs[i].Narrow(2, n, p.Patches.Len-n))
		}
		if n > 0 {
			r.embedPart(i, xs[i].Narrow(2, 0, n), z, p)
		}
	}
}

// embedPart writes the tokens x (n, T', W, C) of part i, without padding.
func (r *rank) embedPart(i int, x kernels.Tensor, z []float32, p nn.Part) {
	defer r.dev.Scope()()
	channels, frames := r.j.Channels, r.j.size.T
	var vectors []float32
	for row := range p.Rows.Len {
		at, found := 0, false
		for _, s := range r.shares {
			size := channels * frames * len(s.pixels)
			here := s.patches == nn.Span{Start: p.Patches.Start, Len: x.Dim(2)}
			if here && s.element == (p.Rows.Start+row)/r.branches {
				vectors = append(vectors, s.vectors(z[at:at+size], channels, frames, r.frames, r.j.Patch)...)
				found = true
				break
			}
			at += size
		}
		if !found { // outside of the latents, in a box
			vectors = append(vectors, make([]float32, r.frames*x.Dim(2)*channels*r.j.Patch.Size())...)
		}
	}
	v := r.dev.Alloc(r.j.DType, x.Dim(0), x.Dim(1), x.Dim(2), channels*r.j.Patch.Size())
	r.dev.Upload(v, vectors)
	r.batch.Embed(i, x, v)
}
