package vae

import (
	"fmt"

	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages/sequence"
	"latentbeam/stages/vae/causal"
)

// grouping is how many frames are decoded without a look at others, their latent frames, and how many frames
// neighbouring groups share.
type grouping struct {
	frames, latents, overlap int
	dropped                  bool // groups also share a latent frame, and what the later one makes of it is dropped
}

// group: single frames by AutoencoderKL, groups of 17 by the autoencoders of Open-Sora 1.2 and 1.3, where those of
// 1.3 share a frame, and of 29 by that of Open-Sora-Plan 1.2.
func (c Config) group() grouping {
	switch a := c.arch.(type) {
	case *CausalVAEConfig:
		return grouping{causal.GroupFrames, causal.GroupLatents, 1, true}
	case *PipelineConfig:
		return grouping{a.MicroFrameSize, a.latentFrames(a.MicroFrameSize), 0, false}
	case *CausalConfig:
		return grouping{a.MicroFrameSize, a.GroupLatents(a.MicroFrameSize), a.MicroFrameSize - a.Stride(), false}
	}
	return grouping{1, 1, 0, false}
}

// of returns how many groups so many frames are.
func (g grouping) of(frames int) int {
	stride := g.frames - g.overlap
	return max(1, (frames-g.overlap+stride-1)/stride)
}

// groupsOf returns how many groups the video of a row is decoded from.
func (c Config) groupsOf(row *schemas.PromptRow) int {
	clips := max(1, row.Loop)
	if a, ok := c.arch.(*CausalConfig); ok && clips > 1 {
		if shape, err := c.LatentShape(row.NumFrames, row.Height, row.Width); err == nil {
			if frames, err := a.FramesOf(shape[1] + (clips-1)*(shape[1]-row.ConditionFrameLength)); err == nil {
				return c.group().of(frames)
			}
		}
	}
	return clips * c.group().of(row.NumFrames)
}

// banded reports whether devices share the rows of a clip, because all frames depend on each other.
func (c Config) banded() bool {
	switch c.arch.(type) {
	case *WanConfig, *WFConfig:
		return true
	}
	return false
}

// piecesOf returns how many parts of the video of a row devices can take each for itself: groups of frames, or rows of
// the latents where all frames depend on each other.
func (c Config) piecesOf(row *schemas.PromptRow) int {
	if c.banded() {
		return max(1, row.Height/c.Downscale())
	}
	return c.groupsOf(row)
}

// A stretch is some groups of a segment that one rank decodes.
type stretch struct {
	segment
	before, after bool // its first, last frame is half of one whose other half a neighbour has
}

// kept returns how many frames of the stretch are in the video as they are decoded.
func (s stretch) kept() int {
	n := s.frames - min(s.again, s.frames)
	if s.before {
		n--
	}
	if s.after {
		n--
	}
	return n
}

// halves returns how many frames it has one half of.
func (s stretch) halves() (n int) {
	if s.before {
		n++
	}
	if s.after {
		n++
	}
	return n
}

// stretches shares the groups of a video out to ranks: [rank][in order].
func (g grouping) stretches(segments []segment, speeds []float64) ([][]stretch, error) {
	total := 0
	for _, s := range segments {
		total += g.of(s.frames)
	}
	parts, err := sequence.Cut(total, speeds)
	if err != nil {
		return nil, err
	}
	out := make([][]stretch, len(parts))
	first := 0 // group of the segment
	for _, s := range segments {
		n := g.of(s.frames)
		for r, part := range parts {
			mine := part.And(sequence.Range{Lo: first, Hi: first + n})
			if mine.Len() > 0 {
				out[r] = append(out[r], g.stretch(s, mine.Lo-first, mine.Hi-first, n))
			}
		}
		first += n
	}
	return out, nil
}

// stretch returns the groups [lo, hi) of the n of a segment.
func (g grouping) stretch(s segment, lo, hi, n int) stretch {
	stride := g.frames - g.overlap
	from, to := lo*stride, min(hi*stride+g.overlap, s.frames)
	first, t := lo*g.latents, min(hi*g.latents, s.z.Shape[1])
	again := max(0, s.again-from)
	if g.dropped {
		first, t = lo*(g.latents-1), min(hi*(g.latents-1)+1, s.z.Shape[1])
		if lo > 0 {
			again = max(again, g.overlap)
		}
	}
	if hi == n {
		to, t = s.frames, s.z.Shape[1]
	}
	halves := g.overlap > 0 && !g.dropped
	return stretch{segment: segment{framesOf(s.z, first, t-first), to - from, again},
		before: lo > 0 && halves, after: hi < n && halves}
}

// stretchState is what has become of a stretch.
type stretchState struct {
	frames [][]byte
	halves [][]float32 // its first, its last
}

// decodeStretch decodes one stretch.
func (s *decodeStage) decodeStretch(dev kernels.Backend, model *Model, st stretch) (stretchState, error) {
	var p stretchState
	var unreal error // of a frame
	i := 0
	err := model.Decode(dev, st.z, st.frames, s.micro, func(pixels []float32) {
		switch at := i; {
		case at < st.again:
		case at == 0 && st.before, at == st.frames-1 && st.after:
			p.halves = append(p.halves, append([]float32(nil), pixels...))
		default:
			frame := make([]byte, len(pixels))
			if err := s.Config.bytes(frame, pixels); err != nil && unreal == nil {
				unreal = err
			}
			p.frames = append(p.frames, frame)
		}
		i++
	})
	if err == nil && unreal == nil && (len(p.frames) != st.kept() || len(p.halves) != st.halves()) {
		err = fmt.Errorf("%d frames and %d halves were decoded, want %d and %d",
			len(p.frames), len(p.halves), st.kept(), st.halves())
	}
	if err == nil {
		err = fault.Row(unreal)
	}
	return p, err
}
