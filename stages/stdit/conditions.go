package stdit

import (
	"fmt"
	"math"

	"latentbeam/kernels"
	"latentbeam/stages/nn"
)

// Conditions is what the versions from 1.1 on are told of a video beside its text. Version 1.0 takes none.
type Conditions struct {
	Height, Width float64 // pixels; one size for the whole batch
	NumFrames     float64 // pixel frames, told to 1.1
	// AspectRatio is height/width, told to 1.1; 0: that of Height and Width.
	AspectRatio float64
	// FPS is the frame rate of each row, or one value for all. Images have ImageFPS.
	FPS []float64
}

// ImageFPS is the frame rate by which the versions from 1.1 on know an image.
const ImageFPS = 120

// check says what version v misses in the conditions of b rows.
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

// fps returns the frame rates of b rows, each as a row of its own.
func (c Conditions) fps(b int) [][]float64 {
	out := make([][]float64, b)
	for i := range out {
		out[i] = []float64{c.FPS[i%len(c.FPS)]}
	}
	return out
}

// repeat returns b times the same row of values.
func repeat(b int, values ...float64) [][]float64 {
	out := make([][]float64, b)
	for i := range out {
		out[i] = values
	}
	return out
}

// positionScale is what positions in the patch grid are divided by: the side of a square of the video's area
// over that of training. Height and width are first rounded to the model's type, as the reference holds them.
func (c Config) positionScale(cond Conditions) float64 {
	round := func(x float64) float64 { return float64(c.DType.Round(float32(x))) }
	return math.Sqrt(round(cond.Height)*round(cond.Width)) / c.InputSqSize
}

// sincos computes the positions of the patches from 1.1 on: (1, 1, S, C).
func (p *Prepared) sincos(be kernels.Backend, cfg Config, cond Conditions) {
	p.spatial = be.Alloc(cfg.DType, 1, 1, p.patches.Len, cfg.HiddenSize)
	be.Upload(p.spatial,
		nn.SinCosGrid(cfg.DType, cfg.HiddenSize, p.rows, p.cols, p.patches, cfg.positionScale(cond)))
}
