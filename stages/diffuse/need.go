package diffuse

import (
	"fmt"

	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/nn"
	"latentbeam/stages/weight"
)

// SampleBytes returns the device memory that a network needs to prepare and evaluate rows latents (two for each
// element under guidance) of the given size and texts of the given number of tokens, with inputs and outputs but
// without the weights.
func SampleBytes(net Network, rows int, size Size, tokens int) (int64, error) {
	evaluate, err := evaluation(net, rows, size, tokens, true)
	if err != nil {
		return 0, err
	}
	return nn.PeakBytes(evaluate)
}

// evaluation prepares rows, and with forward evaluates them once, on shapes alone.
func evaluation(net Network, rows int, size Size, tokens int, forward bool) (func(be kernels.Backend) error, error) {
	if min(size.T, size.H, size.W) < 1 {
		return nil, fmt.Errorf("latents of %dx%dx%d: height, width or num_frames is missing or too small", size.T, size.H, size.W)
	}
	m, err := net.Load(weight.ShapesOnly())
	if err != nil {
		return nil, err
	}
	d := net.Describe()
	return func(be kernels.Backend) error {
		b, err := m.Prepare(be, d.anyRows(rows, size, tokens))
		if err != nil || !forward {
			return err
		}
		x := be.Alloc(kernels.F32, rows, d.Channels, size.T, size.H, size.W)
		_, err = d.Forward(be, b, x, Instant{make([]float32, rows), d.anyMarks(rows, size)})
		return err
	}, nil
}

// anyRows stand for rows of a size and length of text, which is all zeros: memory and work do not depend on their other
// values.
func (d *Description) anyRows(n int, size Size, tokens int) *Rows {
	e := &stages.Element{
		Row:  schemas.PromptRow{Height: 1, Width: 1, NumFrames: 1, FPS: 1},
		Text: &stages.Text{Embedding: stages.NewArray(tokens, d.TextWidth)},
	}
	rows := &Rows{Size: size, Box: d.Box, Parts: d.alone(n, size)}
	for range n {
		rows.Rows = append(rows.Rows, Row{Element: e})
	}
	return rows
}

// anyMarks marks the first frame of all as given, where the network knows given frames: then each frame of each row is
// modulated for itself.
func (d *Description) anyMarks(rows int, size Size) []bool {
	if !d.Conditions.Marked {
		return nil
	}
	frames, _, _ := d.Patch.Grid(size.T, size.H, size.W)
	generated := make([]bool, rows*frames)
	for i := range generated[1:] {
		generated[i+1] = true
	}
	return generated
}
