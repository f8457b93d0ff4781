package vae

import (
	"cmp"
	"fmt"
	"slices"

	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages/sequence"
)

// pieces returns the number of parts of a row's video that devices can decode independently: groups of frames, or rows of the
// latents if all frames depend on each other.
func (s *decodeStage) pieces(row *schemas.PromptRow) int {
	if s.Config.Banded {
		return max(1, row.Height/s.Config.Downscale())
	}
	group, clips := s.Config.Group, max(1, row.Loop)
	if group.Joined && clips > 1 {
		if shape, err := s.Config.ShapeOf(row); err == nil {
			latents := shape[1] + (clips-1)*(shape[1]-row.ConditionFrameLength)
			if frames, err := s.Config.FramesOf(latents, row.NumFrames); err == nil {
				return group.Of(frames)
			}
		}
	}
	return clips * group.Of(row.NumFrames)
}

// stretch is a range of groups in a segment that one rank decodes.
type stretch struct {
	segment
	before, after bool // the first or last frame must be averaged with the neighbour's
}

// kept returns the number of frames of the stretch that go to the video unchanged.
func (s stretch) kept() int {
	return s.frames - min(s.overlap, s.frames) - s.halves()
}

// halves returns the number of frames that must be averaged with a neighbour's.
func (s stretch) halves() (n int) {
	if s.before {
		n++
	}
	if s.after {
		n++
	}
	return n
}

// stretchesOf divides the groups of a video between ranks: [rank][in order].
func stretchesOf(g Grouping, segments []segment, speeds []float64) ([][]stretch, error) {
	total := 0
	for _, s := range segments {
		total += g.Of(s.frames)
	}
	parts, err := sequence.Cut(total, speeds)
	if err != nil {
		return nil, err
	}
	out := make([][]stretch, len(parts))
	first := 0 // first group of the segment
	for _, s := range segments {
		n := g.Of(s.frames)
		for r, part := range parts {
			mine := part.And(sequence.Range{Lo: first, Hi: first + n})
			if mine.Len() > 0 {
				out[r] = append(out[r], stretchOf(g, s, mine.Lo-first, mine.Hi-first, n))
			}
		}
		first += n
	}
	return out, nil
}

// stretchOf returns the stretch with the groups [lo, hi) of a segment with n groups.
func stretchOf(g Grouping, s segment, lo, hi, n int) stretch {
	stride := g.Frames - g.Overlap
	from, to := lo*stride, min(hi*stride+g.Overlap, s.frames)
	first, t := lo*g.Latents, min(hi*g.Latents, s.z.Shape[1])
	again := max(0, s.overlap-from)
	if g.Dropped {
		first, t = lo*(g.Latents-1), min(hi*(g.Latents-1)+1, s.z.Shape[1])
		if lo > 0 {
			again = max(again, g.Overlap)
		}
	}
	if hi == n {
		to, t = s.frames, s.z.Shape[1]
	}
	halves := g.Overlap > 0 && !g.Dropped
	return stretch{segment: segment{framesOf(s.z, first, t-first), to - from, again},
		before: lo > 0 && halves, after: hi < n && halves}
}

// stretchState is the result of decoding a stretch.
type stretchState struct {
	frames [][]byte
	halves [][]float32 // the first, the last
}

// decodeStretch decodes one stretch.
func (s *decodeStage) decodeStretch(dev kernels.Backend, model *Model, st stretch) (stretchState, error) {
	made := frames{config: s.Config}
	var halves [][]float32
	i := 0
	err := model.Decode(dev, st.z, st.frames, s.micro, func(pixels []float32) {
		switch at := i; {
		case at < st.overlap:
		case at == 0 && st.before, at == st.frames-1 && st.after:
			halves = append(halves, slices.Clone(pixels))
		default:
			made.add(pixels)
		}
		i++
	})
	if err = cmp.Or(err, fault.Row(made.unreal)); err == nil && (len(made.all) != st.kept() || len(halves) != st.halves()) {
		err = fmt.Errorf("%d frames and %d halves were decoded, want %d and %d",
			len(made.all), len(halves), st.kept(), st.halves())
	}
	return stretchState{made.all, halves}, err
}
