package dit

import (
	"cmp"
	"fmt"

	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/cost"
	"latentbeam/stages/nn"
	"latentbeam/stages/sequence"
	"latentbeam/stages/weights"
)

// The memory and work of a network are measured by running its own code on shapes alone.

// queryTile divides the ranges of queries when a frame is shared.
const queryTile = 64

// SampleBytes returns the device memory that a network needs to prepare and evaluate rows latents (two for each element with
// guidance) of this size, with texts of this number of tokens. It includes inputs and outputs, but not the weights.
func SampleBytes(net Network, rows int, size LatentSize, tokens int) (int64, error) {
	evaluate, err := evaluation(net, rows, size, tokens, true)
	if err != nil {
		return 0, err
	}
	return nn.PeakBytes(evaluate)
}

// Work returns the work of a network for one row over all steps, with texts of full length, and how a set can share it. known has
// rehearsals of this network.
func Work(net Network, row *schemas.PromptRow, known *nn.Rehearsals) (cost.Estimate, error) {
	d := net.Describe()
	branches := 1
	if d.Guided(row) {
		branches = 2
	}
	size := net.LatentSize(row)
	prepare, err := work(net, branches, size, false, known)
	if err != nil {
		return cost.Estimate{}, err
	}
	step, err := work(net, branches, size, true, known)
	if err != nil {
		return cost.Estimate{}, err
	}
	step.Add(prepare, -1)
	box := size.In(d.Box)
	t, h, w := d.Patch.Grid(box.T, box.H, box.W)
	shape := sequence.Shape{Batch: branches, Frames: t, Positions: h * w, Heads: d.Heads,
		HeadSize: d.Hidden / d.Heads, QueryTile: queryTile, Full: d.Full}
	steps := row.NumInferenceSteps * max(1, row.Loop) // of all clips
	split := &cost.Split{Shape: shape, Pairs: d.Blocks, Steps: steps, Kernels: step, Bytes: d.DType.Size()}
	split.Costs = sequence.Costs{
		Project: 6 * float64(d.Hidden) * float64(d.Hidden),
		Score:   4 * float64(shape.HeadSize) * cmp.Or(d.Scored, 1),
	}
	tokens := float64(branches) * float64(t) * float64(shape.Positions)
	split.Costs.Local = (step.Work() - float64(d.Blocks)*shape.Total(split.Costs)) / (float64(d.Blocks) * tokens)
	prepare.Add(step, float64(steps))
	return cost.Estimate{Work: prepare.Work(), Kernels: prepare, Split: split}, nil
}

// work returns the kernels for preparing rows, and with forward also for evaluating them once.
func work(net Network, rows int, size LatentSize, forward bool, known *nn.Rehearsals) (cost.Kernels, error) {
	evaluate, err := evaluation(net, rows, size, net.Describe().TextTokens, forward)
	if err != nil {
		return cost.Kernels{}, err
	}
	type key struct {
		rows    int
		size    LatentSize
		forward bool
	}
	all, err := known.Of(key{rows, size, forward}, evaluate)
	return all.Kernels, err
}

// evaluation returns a function that prepares rows, and with forward evaluates them once, on shapes alone.
func evaluation(net Network, rows int, size LatentSize, tokens int, forward bool) (func(be kernels.Backend) error, error) {
	if min(size.T, size.H, size.W) < 1 {
		return nil, fmt.Errorf("latents of %dx%dx%d: height, width or num_frames is missing or too small", size.T, size.H, size.W)
	}
	m, err := net.Load(weights.ShapesOnly())
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

// anyRows returns rows with texts of zeros. Memory and work depend only on the size and the number of tokens.
func (d *Description) anyRows(n int, size LatentSize, tokens int) *Rows {
	e := &stages.Element{
		Row:  schemas.PromptRow{Height: 1, Width: 1, NumFrames: 1, FPS: 1},
		Text: &stages.Text{Embedding: stages.NewArray(tokens, d.TextWidth)},
	}
	rows := &Rows{Size: size, Box: d.Box, Parts: d.alone(n, size)}
	for range n {
		rows.Rows = append(rows.Rows, BatchRow{Element: e})
	}
	return rows
}

// anyMarks marks the first frame of all as given, if the network supports given frames: then each frame of each row is
// modulated separately, which costs the most.
func (d *Description) anyMarks(rows int, size LatentSize) []bool {
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
