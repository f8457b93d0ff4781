package stdit

import (
	"fmt"
	"math"

	"latentbeam/kernels"
	"latentbeam/stages/nn"
)

// Conditions are the inputs about a video, besides its text, that the versions from 1.1 on have. Version 1.0 has none.
type Conditions struct {
	Height, Width float64 // pixels; one size for the whole batch
	NumFrames     float64 // pixel frames, for 1.1
	// AspectRatio is height/width, for 1.1; 0: computed from Height and Width.
	AspectRatio float64
	// FPS is the frame rate of each row, or one value for all. Images use ImageFPS.
	FPS []float64
}

// ImageFPS is the frame rate that marks an image in the versions from 1.1 on.
const ImageFPS = 120

// check returns an error if conditions that version v needs for b rows are missing.
func (c Conditions) check(v Version, b int) error {
	if v == OpenSora10 {
		return nil
	}
	if !(c.Height > 0 && c.Width > 0) || math.IsInf(c.Height*c.Width, 0) {
		return fmt.Errorf("height %g and width %g must be the pixels of the video", c.Height, c.Width)
	}
	if v == OpenSora11 && !(c.NumFrames > 0) {
		return fmt.Errorf("num_frames is %g, must be the frames of the video", c.NumFrames)
	}
	if len(c.FPS) != 1 && len(c.FPS) != b {
		return fmt.Errorf("%d frame rates for %d rows", len(c.FPS), b)
	}
	return nil
}

func (c Conditions) aspectRatio() float64 {
	if c.AspectRatio != 0 {
		return c.AspectRatio
	}
	return c.Height / c.Width
}

// fps returns the frame rates of b rows, one row for each.
func (c Conditions) fps(b int) [][]float64 {
	out := make([][]float64, b)
	for i := range out {
		out[i] = []float64{c.FPS[i%len(c.FPS)]}
	}
	return out
}

// repeat returns b rows with the same values.
func repeat(b int, values ...float64) [][]float64 {
	out := make([][]float64, b)
	for i := range out {
		out[i] = values
	}
	return out
}

// positionScale returns the divisor of positions in the patch grid: the side of a square with the video's area, divided by the
// side in training. Height and width are first rounded to the model's type, as in the reference.
func (c Config) positionScale(cond Conditions) float64 {
	round := func(x float64) float64 { return float64(c.DType.Round(float32(x))) }
	return math.Sqrt(round(cond.Height)*round(cond.Width)) / c.InputSqSize
}

// sincos computes the positions of the patches for versions from 1.1 on: (1, 1, S, C).
func (p *Prepared) sincos(be kernels.Backend, cfg Config, cond Conditions) {
	p.spatial = be.Alloc(cfg.DType, 1, 1, p.patches.Len, cfg.HiddenSize)
	be.Upload(p.spatial,
		nn.SinCosGrid(cfg.DType, cfg.HiddenSize, p.rows, p.cols, p.patches, cfg.positionScale(cond)))
}
