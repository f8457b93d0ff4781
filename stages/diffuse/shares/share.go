package shares

import (
	"latentbeam/kernels"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/nn"
	"latentbeam/stages/sequence"
)

// Share is a set of patches of one element of the batch, with all frames. Its values are (C, T, pixels).
type Share struct {
	Element int
	patches nn.Span
	// pixels lists the positions y*W+x in a latent frame, patch by patch. at maps a position in a patch to its index in pixels:
	// at[patch * ph * pw + i * pw + j], -1 for padding.
	pixels, at []int
}

// sharesOf returns the shares that a rank samples: the patches of its columns, each once even if several branches have them.
// With first it counts only the columns of branch 0, which cover every element once over all ranks. Patches outside of the
// latents, in a box, are not shares.
func (b *Batch) sharesOf(rank int, first bool) (out []Share) {
	type key struct {
		element int
		patches nn.Span
	}
	seen := map[key]bool{}
	for _, c := range b.Plan.Columns(rank) {
		r := c.And(sequence.Range{Hi: b.Plan.Shape.Positions})
		k := key{c.Element / b.Branches, nn.Span{Start: r.Lo, Len: r.Len()}}
		if r.Len() == 0 || seen[k] || b.outside(k.patches) || first && c.Element%b.Branches != 0 {
			continue
		}
		seen[k] = true
		out = append(out, Share{Element: k.element, patches: k.patches})
	}
	return out
}

// outside reports whether none of the patches has a pixel of the latents.
func (b *Batch) outside(patches nn.Span) bool {
	if b.Box == (dit.LatentSize{}) {
		return false
	}
	_, _, cols := b.Patch.Grid(b.Box.T, b.Box.H, b.Box.W)
	for p := patches.Start; p < patches.Start+patches.Len; p++ {
		if p/cols*b.Patch[1] < b.Size.H && p%cols*b.Patch[2] < b.Size.W {
			return false
		}
	}
	return true
}

// locatedShares is sharesOf with the position of each share's pixels in the latents, which may be in a box.
func (b *Batch) locatedShares(rank int, first bool) []Share {
	out := b.sharesOf(rank, first)
	for i := range out {
		out[i].locate(b.Size, b.Description)
	}
	return out
}

// locate computes the positions of a share's pixels in latents of the given size.
func (s *Share) locate(size dit.LatentSize, d *dit.Description) {
	box, patch := size.In(d.Box), d.Patch
	_, _, cols := patch.Grid(box.T, box.H, box.W)
	for p := s.patches.Start; p < s.patches.Start+s.patches.Len; p++ {
		for i := range patch[1] {
			for j := range patch[2] {
				y, x := p/cols*patch[1]+i, p%cols*patch[2]+j
				if y >= size.H || x >= size.W {
					s.at = append(s.at, -1)
					continue
				}
				s.at = append(s.at, len(s.pixels))
				s.pixels = append(s.pixels, y*size.W+x)
			}
		}
	}
}

// Len returns the number of values of the share. frames is C*T.
func (s *Share) Len(frames int) int { return frames * len(s.pixels) }

// Pick copies the share's pixels of full (C, T, H, W) to z (C, T, pixels); frames is C*T.
func (s *Share) Pick(z, full []float32, frames int) {
	area := len(full) / frames
	for f := range frames {
		for i, p := range s.pixels {
			z[f*len(s.pixels)+i] = full[f*area+p]
		}
	}
}

// scatter copies z to the share's pixels of full: the inverse of Pick.
func (s *Share) scatter(full, z []float32, frames int) {
	area := len(full) / frames
	for f := range frames {
		for i, p := range s.pixels {
			full[f*area+p] = z[f*len(s.pixels)+i]
		}
	}
}

// vectors writes z (C, T, pixels) as patch vectors (T', patches, C pt ph pw) for the embedding. frames is T'.
func (s *Share) vectors(z []float32, channels, t, frames int, patch nn.Patch) []float32 {
	area, n := patch[1]*patch[2], len(s.pixels)
	out := make([]float32, frames*s.patches.Len*channels*patch.Size())
	at := 0
	for f := range frames {
		for p := range s.patches.Len {
			for c := range channels {
				for dt := range patch[0] {
					for i, pixel := range s.at[p*area : (p+1)*area] {
						if frame := f*patch[0] + dt; pixel >= 0 && frame < t {
							out[at+i] = z[(c*t+frame)*n+pixel]
						}
					}
					at += area
				}
			}
		}
	}
	return out
}

// latents writes tokens (T', patches, pt ph pw c), channel fastest, to out (c, T, pixels).
func (s *Share) latents(out, tokens []float32, channels, t int, patch nn.Patch) {
	area, n := patch[1]*patch[2], len(s.pixels)
	for f := range (t + patch[0] - 1) / patch[0] {
		for p := range s.patches.Len {
			for dt := range patch[0] {
				frame := f*patch[0] + dt
				for i, pixel := range s.at[p*area : (p+1)*area] {
					token := tokens[(((f*s.patches.Len+p)*patch[0]+dt)*area+i)*channels:]
					for c := 0; pixel >= 0 && frame < t && c < channels; c++ {
						out[(c*t+frame)*n+pixel] = token[c]
					}
				}
			}
		}
	}
}

// overlap returns the patches that both spans contain.
func overlap(a, b nn.Span) nn.Span {
	lo := max(a.Start, b.Start)
	return nn.Span{Start: lo, Len: max(0, min(a.Start+a.Len, b.Start+b.Len)-lo)}
}

// patchesOf returns the view of x (T', patches from start on, ...) for the given patches.
func patchesOf(x kernels.Tensor, start int, patches nn.Span) kernels.Tensor {
	return x.Narrow(1, patches.Start-start, patches.Len)
}
