package stdit

import (
	"latentbeam/kernels"
	"latentbeam/stages/nn"
)

// SampleBytes returns the device memory that Prepare and Forward need for rows latents (two for each
// element under guidance) of the given size and texts of the given number of tokens, with inputs and
// outputs but without the weights.
func (c Config) SampleBytes(rows int, size Size, tokens int) (int64, error) {
	evaluate, err := c.evaluation(rows, size, tokens, true)
	if err != nil {
		return 0, err
	}
	return nn.PeakBytes(evaluate)
}

// evaluation is Prepare, and with forward one Forward, on shapes alone.
func (c Config) evaluation(rows int, size Size, tokens int, forward bool) (func(be kernels.Backend) error, error) {
	m, err := Load(c, nn.ShapesOnly())
	if err != nil {
		return nil, err
	}
	return func(be kernels.Backend) error {
		texts := make([]kernels.Tensor, rows)
		for i := range texts {
			texts[i] = be.Alloc(kernels.F32, tokens, c.CaptionChannels)
		}
		p, err := m.Prepare(be, size, anyConditions, texts)
		if err != nil || !forward {
			return err
		}
		x := be.Alloc(kernels.F32, rows, c.InChannels, size.T, size.H, size.W)
		_, err = m.Forward(be, x, make([]float32, rows), c.anyGiven(rows*p.times.Len), p)
		return err
	}, nil
}

// anyConditions stand for those of a row: memory does not depend on their values.
var anyConditions = Conditions{Height: 1, Width: 1, NumFrames: 1, FPS: []float64{1}}

// anyGiven marks one of n frames as given, where the version knows given frames: then all are modulated apart.
func (c Config) anyGiven(n int) []bool {
	if c.Version == OpenSora10 {
		return nil
	}
	generated := make([]bool, n)
	for i := range generated[1:] {
		generated[i+1] = true
	}
	return generated
}
