package stdit

import (
	"fmt"
	"testing"

	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/diffuse/sampler"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/rng"
	"latentbeam/stages/weights/safetensors"
)

// TestMeasureSteps times whole steps of the sampler under guidance, of a model of published width: noise, patches,
// blocks, last layer, guidance and the step itself, the host's share too; not the texts' keys, which a batch
// computes once. A case is version, latents, frames of the video, tokens of text, blocks and steps, in bf16:
// "1.0 16x64x64 16 120 28 5". The result is one evaluation at timestep 500 of the training process.
func TestMeasureSteps(t *testing.T) {
	be := nntest.Device(t)
	be.Scope() // never closed: tensors are in the arena, as in a run
	nntest.Rounds(t, be, func(name string) nntest.Measured {
		c := stepsCase{t: t, weights: nntest.Repeated}
		if err := c.open(be, name); err != nil {
			t.Fatalf("case %q: %v", name, err)
		}
		return nntest.Measured{Run: c.run, Result: c.result, Need: c.need}
	})
}

// stepsCase is a network with its sampler.
type stepsCase struct {
	t        *testing.T
	weights  func(testing.TB, map[string][]int) *safetensors.File
	net      *loaded
	size     dit.LatentSize
	evaluate sampler.Model
	tokens   int
	sampler  sampler.Sampler
}

func (c *stepsCase) open(be kernels.Backend, name string) error {
	var version string
	size := &c.size
	var frames, depth, steps int
	if _, err := fmt.Sscanf(name, "%s %dx%dx%d %d %d %d %d", &version, &size.T, &size.H, &size.W, &frames, &c.tokens,
		&depth, &steps); err != nil {
		return err
	}
	cfg := DefaultConfig(map[string]Version{"1.0": OpenSora10, "1.2": OpenSora12}[version])
	cfg.Depth, cfg.DType = depth, kernels.BF16
	recipe, err := sampler.OpenSora(version)
	if err != nil {
		return err
	}
	clip := sampler.VideoSize{Height: 8 * size.H, Width: 8 * size.W, Frames: frames, BF16: true}
	if c.sampler, err = recipe.New(steps, clip); err != nil {
		return err
	}
	model := nntest.Loaded(c.t, be, cfg, Load, c.weights(c.t, shapes(c.t, cfg)))
	text := &stages.Array{Shape: []int{c.tokens, cfg.CaptionChannels}} // (L, caption_channels)
	text.Data = nntest.Hash("text", 1, text.Shape...)
	e := &stages.Element{Text: &stages.Text{Embedding: text, Negative: text}, Row: schemas.PromptRow{Height: clip.Height,
		Width: clip.Width, NumFrames: frames, FPS: 24}}
	c.net = &loaded{model, 1}
	d := cfg.describe()
	rows := &dit.Rows{Size: c.size, Rows: []dit.BatchRow{{Element: e}, {Element: e, Branch: 1}}}
	c.evaluate, err = d.Evaluator(be, c.net, rows)
	return err
}

// run samples one element.
func (c *stepsCase) run() {
	z := make([]float32, c.net.InChannels*c.values())
	rng.Normals(z, 42, 0, 0, 0)
	c.sample(z)
}

func (c *stepsCase) values() int { return c.size.T * c.size.H * c.size.W }

// sample takes all steps from the noise z.
func (c *stepsCase) sample(z []float32) {
	channels, size := c.net.InChannels, c.values()
	noise := func(d sampler.Draw, _ int, dst []float32) { rng.Normals(dst, 42, 0, uint32(d.Step+1), 0) }
	b := sampler.Batch{N: 1, Channels: channels, Size: size, Frames: c.size.T, Guidance: []float32{7}}
	if err := c.sampler.Sample(c.t.Context(), b, z, c.evaluate, noise, nil); err != nil {
		c.t.Fatal(err)
	}
}

func (c *stepsCase) need() int64 {
	return nntest.Need(c.t)(dit.SampleBytes(&denoiser{Config: c.net.Config}, 2, c.size, c.tokens))
}

// result is (2, c_out, T, H, W).
func (c *stepsCase) result() []float32 {
	s := c.size
	x := nntest.Hash("x", 1, c.net.InChannels, s.T, s.H, s.W)
	out, err := c.evaluate(c.t.Context(), append(x, x...), []float32{500, 500}, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	return out
}
