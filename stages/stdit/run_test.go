package stdit

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/stages/nn"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/sampler"
)

// harness is a model on a backend, with weights that are the hash of their names.
type harness struct {
	be kernels.Backend
	m  *Model
}

func newHarness(t testing.TB, cfg Config, threads int) harness {
	t.Helper()
	return newHarnessOn(t, cfg, cpu.New(threads))
}

func newHarnessOn(t testing.TB, cfg Config, be kernels.Backend) harness {
	t.Helper()
	names := nn.ShapesOnly()
	if _, err := Load(cfg, names); err != nil {
		t.Fatal(err)
	}
	m, err := Load(cfg, nn.NewWeights(be, nntest.File(t, names.Requested())))
	if err != nil {
		t.Fatal(err)
	}
	return harness{be, m}
}

// upload returns the texts, each (L, caption_channels), as tensors.
func (r harness) upload(texts [][]float32) []kernels.Tensor {
	out := make([]kernels.Tensor, len(texts))
	for i, text := range texts {
		out[i] = r.be.Alloc(kernels.F32, len(text)/r.m.CaptionChannels, r.m.CaptionChannels)
		r.be.Upload(out[i], text)
	}
	return out
}

// forward evaluates the model once on x of the given shape (B, c_in, T, H, W).
func (r harness) forward(t testing.TB, x []float32, shape []int, timesteps []float32,
	texts [][]float32) []float32 {
	t.Helper()
	defer r.be.Scope()()
	p, err := r.m.Prepare(r.be, shape[2], shape[3], shape[4], r.upload(texts))
	if err != nil {
		t.Fatal(err)
	}
	out, err := r.evaluate(x, shape, timesteps, p)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (r harness) evaluate(x []float32, shape []int, timesteps []float32, p *Prepared) ([]float32, error) {
	defer r.be.Scope()()
	latents := r.be.Alloc(kernels.F32, shape...)
	r.be.Upload(latents, x)
	out, err := r.m.Forward(r.be, latents, timesteps, p)
	if err != nil {
		return nil, err
	}
	values := make([]float32, out.Len())
	return values, r.be.Download(values, out)
}

// checkSampling runs the sampler over the model with hashed noise.
func checkSampling(t *testing.T, c goldenCase) {
	cfg, err := ParseConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	r := newHarness(t, cfg, 2)
	defer r.be.Scope()()
	n, size := c.OutShape[0], c.OutShape[2:]
	width := cfg.InChannels * size[0] * size[1] * size[2]
	prepared := r.guided(t, c, n)

	steps := c.NumSamplingSteps
	if steps == 0 {
		steps = len(c.TimestepMap)
	}
	channels := c.CFGChannels
	if channels == 0 {
		channels = 3
	}
	s, err := sampler.NewIDDPM(steps, channels, false)
	if err != nil {
		t.Fatal(err)
	}
	ascending := s.Timesteps()
	slices.Reverse(ascending)
	if c.TimestepMap != nil && !slices.Equal(ascending, c.TimestepMap) {
		t.Errorf("timesteps %v, want %v", ascending, c.TimestepMap)
	}
	model := func(_ context.Context, rows, timesteps []float32, _ []bool) ([]float32, error) {
		return r.evaluate(rows, append([]int{2 * n, cfg.InChannels}, size...), timesteps, prepared)
	}
	noise := func(d sampler.Draw, element int, dst []float32) {
		all := nntest.Hash(fmt.Sprintf("%s.%d", c.NoisePrefix, d.Step), 1.7, 2*n, width)
		copy(dst, all[element*width:])
	}
	z := nntest.Hash(c.NoisePrefix+".init", 1.7, n, width)
	batch := sampler.Batch{N: n, Channels: cfg.InChannels, Size: width / cfg.InChannels,
		Guidance: slices.Repeat([]float32{c.CFGScale}, n)}
	if err := s.Sample(t.Context(), batch, z, model, noise, nil); err != nil {
		t.Fatal(err)
	}
	diff, largest := nntest.MaxDiff(z, c.Out)
	t.Logf("largest difference %.2g of %.3g: %.2g of it", diff, largest, diff/largest)
	if diff > sampleTolerance*largest {
		t.Errorf("differs by %g from the reference, want at most %g", diff, sampleTolerance*largest)
	}
}

// guided prepares n prompts and n null texts of the prompts' lengths.
func (r harness) guided(t *testing.T, c goldenCase, n int) *Prepared {
	t.Helper()
	rows := masks(t, c.Mask, 2*n, r.m.ModelMaxLength)
	texts := r.upload(captions(r.m.Config, c.InputPrefix, rows[:n]))
	for _, mask := range rows[n:] {
		if length, err := prefixLength(mask); err == nil {
			texts = append(texts, r.m.NullText(r.be, length))
			continue
		}
		null := nntest.Weight("y_embedder.y_embedding", r.m.ModelMaxLength, r.m.CaptionChannels)
		texts = append(texts, r.upload([][]float32{pick(null, r.m.CaptionChannels, mask)})...)
	}
	p, err := r.m.Prepare(r.be, c.OutShape[2], c.OutShape[3], c.OutShape[4], texts)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
