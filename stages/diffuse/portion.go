package diffuse

import (
	"slices"

	"latentbeam/stages"
	"latentbeam/stages/diffuse/sampler"
	"latentbeam/stages/diffuse/shares"
	"latentbeam/stages/rng"
)

// portion is the part of a job that one rank samples: its shares, or whole elements on a single device. A rank without shares
// samples one pixel that is not used, so that it takes part in every step.
type portion struct {
	*job
	rank *shares.Rank // nil: a single device has everything
}

// len returns the number of elements that the portion has values of.
func (p portion) len() int {
	if p.rank == nil {
		return len(p.batch)
	}
	return len(p.rank.Shares)
}

// element returns the batch index of the portion's i-th element.
func (p portion) element(i int) int {
	if p.rank == nil {
		return i
	}
	return p.rank.Shares[i].Element
}

// appendValues appends the portion's values of its i-th element to z. full holds all values (C, T, H, W) of the element.
func (p portion) appendValues(z, full []float32, i int) []float32 {
	if p.rank == nil {
		return append(z, full...)
	}
	s, at := p.rank.Shares[i], len(z)
	z = append(z, make([]float32, s.Len(p.planes()))...)
	s.Pick(z[at:], full, p.planes())
	return z
}

// initialLatents returns the initial latents and the sampler's batch.
func (p portion) initialLatents() (z []float32, b sampler.Batch) {
	b = sampler.Batch{N: p.len(), Channels: p.Channels, Frames: p.size.T, Idle: p.len() == 0, From: p.savedState(), Image: p.imageOf()}
	if p.rank != nil {
		b.Gather = p.rank.Moments
	}
	full := make([]float32, p.values())
	for i := range b.N {
		n, at := len(z), p.element(i)
		p.start(full, p.batch[at])
		z = p.appendValues(z, full, i)
		b.Sizes = append(b.Sizes, (len(z)-n)/p.Channels)
		p.guideBy(&b, p.batch[at])
		if p.masks != nil {
			b.Masks = append(b.Masks, p.masks[at*p.size.T:][:p.size.T]...)
		}
	}
	if b.Idle {
		b.N, b.Sizes, z = 1, []int{p.size.T}, make([]float32, p.planes())
		p.guideBy(&b, p.batch[0])
	}
	return z, b
}

// savedState returns the saved state from which all rows of the batch resume.
func (p portion) savedState() sampler.State {
	s := sampler.State{Done: p.done}
	if p.done == 0 {
		return s
	}
	for k, m := range p.batch[0].Begun.Memory {
		s.Memory = append(s.Memory, sampler.History{Name: m.Name, Values: p.ownValues(func(e *stages.Element) []float32 {
			return e.Begun.Memory[k].Values.Data
		})})
	}
	return s
}

// imageOf returns the given frames of the element for the sampler.
func (p portion) imageOf() *sampler.Image {
	if p.image == nil {
		return nil
	}
	own := *p.image
	own.Latents = p.ownValues(func(*stages.Element) []float32 { return p.image.Latents })
	return &own
}

// ownValues returns the portion's part of the values (C, T, H, W) that of returns for each element.
func (p portion) ownValues(of func(*stages.Element) []float32) (z []float32) {
	for i := range p.len() {
		z = p.appendValues(z, of(p.batch[p.element(i)]), i)
	}
	if p.len() == 0 {
		z = make([]float32, p.planes())
	}
	return z
}

// noise returns the noise function for the sampler.
func (p portion) noise() sampler.Noise {
	full := make([]float32, p.values())
	return func(d sampler.Draw, i int, dst []float32) {
		number := uint32(d.Step + 1)
		if d.Given {
			number |= rng.Given
		}
		switch {
		case p.rank == nil:
			p.draw(dst, p.batch[i], number)
		case p.len() > 0:
			p.draw(full, p.batch[p.element(i)], number)
			p.rank.Shares[i].Pick(dst, full, p.planes())
		}
	}
}

// gather copies the values of all portions, as whole elements, to the first rank, or to every rank if everyone is set. Other
// ranks get nil.
func (p portion) gather(op string, z []float32, everyone bool) ([]float32, error) {
	if p.rank == nil {
		return slices.Clone(z), nil
	}
	return p.rank.Collect(op, z, everyone)
}

// deliver gathers the latents of all portions and stores them in the elements of the first rank, or of every rank.
func (p portion) deliver(z []float32, everyone bool) error {
	full, err := p.gather("latents", z, everyone)
	if err == nil && full != nil {
		p.finish(full)
	}
	return err
}
