package condition

import (
	"fmt"

	"latentbeam/stages"
)

// Apply puts the pieces of clip number loop into its latents z (C, T, H, W), in place. It returns the edit ratio of each of the
// T frames, 1 if the frame is not given. References are latents (C, T', H, W). align is the number of latent frames in one
// group of the autoencoder: starts are moved to a multiple of it; 0 leaves them.
func Apply(z *stages.Array, references []*stages.Array, pieces []Piece, loop, align int) ([]float32, error) {
	masks := make([]float32, z.Shape[1])
	for t := range masks {
		masks[t] = 1
	}
	for _, p := range pieces {
		if p.Loop != loop {
			continue
		}
		if p.Reference >= len(references) {
			return nil, fmt.Errorf("mask_strategy takes reference %d, but there are %d: they are counted from 0",
				p.Reference, len(references))
		}
		ref := references[p.Reference]
		if err := fits(z, ref, p.Reference); err != nil {
			return nil, err
		}
		from, err := start("reference", p.From, ref.Shape[1], align)
		if err != nil {
			return nil, err
		}
		to, err := start("clip", p.To, z.Shape[1], align)
		if err != nil {
			return nil, err
		}
		n := min(p.Length, z.Shape[1]-to, ref.Shape[1]-from)
		CopyFrames(z, ref, to, from, n)
		for t := to; t < to+n; t++ {
			masks[t] = float32(p.Edit)
		}
	}
	return masks, nil
}

func fits(z, ref *stages.Array, n int) error {
	same := len(ref.Shape) == 4 && ref.Shape[0] == z.Shape[0] && ref.Shape[2] == z.Shape[2] &&
		ref.Shape[3] == z.Shape[3]
	if !same {
		return fmt.Errorf("reference %d has latents of shape %v, the clip of %v", n, ref.Shape, z.Shape)
	}
	return nil
}

// start returns the first frame in a reference of length frames. With align it rounds as the reference code does.
func start(name string, at, length, align int) (int, error) {
	given := at
	if at < 0 {
		at += length
	}
	if at < 0 || at >= length {
		return 0, fmt.Errorf("mask_strategy begins at latent frame %d of the %s, which has %d",
			given, name, length)
	}
	if align > 0 {
		at = nearest(at, align, length)
	}
	return at, nil
}

// nearest returns the multiple of step nearest to at, below the last whole step of length.
func nearest(at, step, length int) int {
	n := at / step
	if 2*(at%step) > step && n < length/step-1 {
		n++
	}
	return n * step
}

// CopyFrames copies n frames from frame from of src to frame to of dst, both (C, ., H, W).
func CopyFrames(dst, src *stages.Array, to, from, n int) {
	area := dst.Shape[2] * dst.Shape[3]
	for c := range dst.Shape[0] {
		d := dst.Data[(c*dst.Shape[1]+to)*area:][:n*area]
		copy(d, src.Data[(c*src.Shape[1]+from)*area:])
	}
}
