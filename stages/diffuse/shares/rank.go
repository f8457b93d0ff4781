package shares

import (
	"context"
	"slices"

	"latentbeam/kernels"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/nn"
	"latentbeam/stages/sequence"
)

// Batch describes what the ranks compute together.
type Batch struct {
	*dit.Description
	Size     dit.LatentSize
	Rows     []dit.BatchRow // of all ranks; the rows of an element are adjacent
	Branches int            // of each element in Rows
	Given    *dit.Given
	Plan     *sequence.Plan // which rank has which columns
	Residual *dit.Residual  // of one rank; nil: it is not needed
}

// planes returns the number of H x W planes in an element's latents.
func (b *Batch) planes() int { return b.Channels * b.Size.T }

// Rank is the network for one rank's columns of a batch.
type Rank struct {
	*Batch
	Shares []Share // the shares that this rank samples
	Steps  int     // evaluations so far

	dev    kernels.Backend
	group  *kernels.Group
	split  *nn.Split
	frames int     // T'
	rows   nn.Span // rows with columns on this rank; if there are none, row 0 is used
	batch  dit.Batch
	whole  [][]Share // see coveringShares
	meets  bool
	out    []float32
}

// NewRank prepares the texts and conditions of all rows with columns on g's rank.
func (b *Batch) NewRank(dev kernels.Backend, g *kernels.Group, model dit.Model) (*Rank, error) {
	g.Follow(b.Plan.Hash)
	r := &Rank{Batch: b, dev: dev, group: g, split: nn.NewSplit(b.Plan, g), frames: b.Plan.Shape.Frames,
		rows: nn.Span{Len: 1}, meets: b.Branches > 1 && b.Plan.Meets(b.Branches), Shares: b.locatedShares(g.Rank(), false)}
	parts := r.split.Parts()
	if len(parts) > 0 {
		last := parts[len(parts)-1].Rows
		r.rows = nn.Span{Start: parts[0].Rows.Start, Len: last.Start + last.Len - parts[0].Rows.Start}
	}
	rows := &dit.Rows{Size: b.Size, Box: b.Box, Split: r.split, Given: b.Given, Rows: b.Rows[r.rows.Start:][:r.rows.Len],
		Residual: b.Residual}
	for _, p := range parts {
		p.Rows.Start -= r.rows.Start
		rows.Parts = append(rows.Parts, p)
	}
	var err error
	r.batch, err = model.Prepare(dev, rows)
	return r, err
}

// coveringShares returns shares of every rank that together cover each position of each element once.
func (r *Rank) coveringShares() [][]Share {
	for rank := len(r.whole); rank < r.group.Size(); rank++ {
		r.whole = append(r.whole, r.locatedShares(rank, true))
	}
	return r.whole
}

// Evaluate is the sampler.Model for this rank's shares: its rows are the branches times the shares.
func (r *Rank) Evaluate(_ context.Context, rows, timesteps []float32, generated []bool) ([]float32, error) {
	r.Next()
	defer r.dev.Scope()()
	xs := r.streams()
	r.embed(xs, rows[:len(rows)/r.Branches])
	marks := r.marks(generated[:len(generated)/r.Branches], len(timesteps)/r.Branches)
	tokens, err := r.batch.Advance(xs, r.instant(timesteps[0], marks), true)
	if err != nil {
		return nil, err
	}
	return r.predictions(tokens, len(rows))
}

// Next starts the next evaluation.
func (r *Rank) Next() {
	r.group.Step(r.Steps)
	r.Steps++
}

// instant returns the instant of a timestep for all rows of this rank.
func (r *Rank) instant(timestep float32, generated []bool) dit.Instant {
	return dit.Instant{Timesteps: slices.Repeat([]float32{timestep}, r.rows.Len), Generated: generated}
}

// predictions returns the sampler's predictions from the output tokens. z is the length of the latents of all branches.
func (r *Rank) predictions(tokens []kernels.Tensor, z int) ([]float32, error) {
	all, err := r.guidance(tokens)
	if err != nil {
		return nil, err
	}
	return r.download(all, z)
}

// marks converts the marks of generated frames from shares to rows. A rank without shares uses one stand-in share.
func (r *Rank) marks(generated []bool, shares int) []bool {
	if len(generated) == 0 {
		return nil
	}
	frames := len(generated) / shares
	var out []bool
	for i := range r.rows.Len {
		at := 0
		for j, s := range r.Shares {
			if s.Element == (r.rows.Start+i)/r.Branches {
				at = j
			}
		}
		out = append(out, generated[at*frames:][:frames]...)
	}
	return out
}

// streams allocates tensors for the tokens of all parts, (n, T', W, C) each.
func (r *Rank) streams() (xs []kernels.Tensor) {
	for _, p := range r.split.Parts() {
		xs = append(xs, r.dev.Alloc(r.DType, p.Rows.Len, r.frames, p.Patches.Len, r.Hidden))
	}
	return xs
}

// embed writes the tokens xs of all parts, made from latents z, which hold one share after another.
func (r *Rank) embed(xs []kernels.Tensor, z []float32) {
	for i, p := range r.split.Parts() {
		n := max(0, min(p.Patches.Len, r.Plan.Shape.Positions-p.Patches.Start))
		if n < p.Patches.Len {
			r.split.Fill(r.dev, xs[i].Narrow(2, n, p.Patches.Len-n))
		}
		if n > 0 {
			r.embedPart(i, xs[i].Narrow(2, 0, n), z, p)
		}
	}
}

// embedPart writes the tokens x (n, T', W, C) of part i, without padding.
func (r *Rank) embedPart(i int, x kernels.Tensor, z []float32, p nn.Part) {
	defer r.dev.Scope()()
	channels, frames := r.Channels, r.Size.T
	var vectors []float32
	for row := range p.Rows.Len {
		at, found := 0, false
		for _, s := range r.Shares {
			size := s.Len(channels * frames)
			here := s.patches == nn.Span{Start: p.Patches.Start, Len: x.Dim(2)}
			if here && s.Element == (p.Rows.Start+row)/r.Branches {
				vectors = append(vectors, s.vectors(z[at:at+size], channels, frames, r.frames, r.Patch)...)
				found = true
				break
			}
			at += size
		}
		if !found { // in a box, outside of the latents
			vectors = append(vectors, make([]float32, r.frames*x.Dim(2)*channels*r.Patch.Size())...)
		}
	}
	v := r.dev.Alloc(r.DType, x.Dim(0), x.Dim(1), x.Dim(2), channels*r.Patch.Size())
	r.dev.Upload(v, vectors)
	r.batch.Embed(i, x, v)
}
