package stdit

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"latentbeam/kernels"
	"latentbeam/stages/diffuse/sampler"
	"latentbeam/stages/nn/nntest"
)

// checkSampling runs the sampler of the version over the model with hashed noise.
func checkSampling(t *testing.T, c goldenCase) {
	cfg := c.config(t)
	r := newHarness(t, cfg, 2)
	defer r.be.Scope()()
	n, size := c.OutShape[0], c.OutShape[2:]
	width := cfg.InChannels * size[0] * size[1] * size[2]
	prepared := r.guided(t, c, n)

	s := c.sampler(t, cfg)
	model := func(_ context.Context, rows, timesteps []float32, generated []bool) ([]float32, error) {
		shape := append([]int{len(timesteps), cfg.InChannels}, size...)
		return r.evaluate(rows, shape, timesteps, generated, prepared)
	}
	noise := func(d sampler.Draw, element int, dst []float32) {
		name := c.NoisePrefix
		if d.Given {
			name += ".given"
		}
		all := nntest.Hash(fmt.Sprintf("%s.%d", name, d.Step), 1.7, 2*n, width)
		copy(dst, all[element*width:])
	}
	z := nntest.Hash(c.NoisePrefix+".init", 1.7, n, width)
	batch := sampler.Batch{N: n, Channels: cfg.InChannels, Size: width / cfg.InChannels, Frames: size[0],
		Guidance: slices.Repeat([]float32{c.CFGScale}, n), Masks: slices.Concat(c.FrameMasks...)}
	if c.Image != nil {
		batch.Image = r.condition(t, c, prepared)
	}
	if err := s.Sample(t.Context(), batch, z, model, noise, nil); err != nil {
		t.Fatal(err)
	}
	diff, largest := nntest.MaxDiff(z, c.Out)
	t.Logf("largest difference %.2g of %.3g: %.2g of it", diff, largest, diff/largest)
	if diff > sampleTolerance*largest {
		t.Errorf("differs by %g from the reference, want at most %g", diff, sampleTolerance*largest)
	}
}

// sampler returns the sampler of the model's version, with the settings of the case.
func (c goldenCase) sampler(t *testing.T, cfg Config) sampler.Sampler {
	t.Helper()
	recipe, err := sampler.OpenSora(cfg.Version.String())
	if err != nil {
		t.Fatal(err)
	}
	if c.CFGChannels != 0 {
		recipe.GuidedChannels = c.CFGChannels
	}
	steps := c.NumSamplingSteps
	if steps == 0 {
		steps = len(c.TimestepMap)
	}
	if steps == 0 {
		steps = 4 // those of the cases that are named after it
	}
	s, err := recipe.New(steps, sampler.VideoSize{Height: int(c.Height), Width: int(c.Width), Frames: int(c.NumFrames),
		BF16: cfg.DType == kernels.BF16})
	if err != nil {
		t.Fatal(err)
	}
	if iddpm, ok := s.(*sampler.IDDPM); ok && c.TimestepMap != nil {
		var ascending []int
		for _, t := range slices.Backward(iddpm.Timesteps()) {
			ascending = append(ascending, int(t))
		}
		if !slices.Equal(ascending, c.TimestepMap) {
			t.Errorf("timesteps %v, want %v", ascending, c.TimestepMap)
		}
	}
	return s
}

// guided prepares n prompts and n null texts of the prompts' lengths.
func (r harness) guided(t *testing.T, c goldenCase, n int) *Prepared {
	t.Helper()
	branches := 2
	if c.Image != nil {
		branches = 3
	}
	rows := masks(t, c.Mask, branches*n, r.m.ModelMaxLength)
	texts := r.upload(captions(r.m.Config, c.InputPrefix, rows[:n]))
	for _, mask := range rows[n:] {
		if length, err := prefixLength(mask); err == nil {
			texts = append(texts, r.m.NullText(r.be, length))
			continue
		}
		null := nntest.Weight("y_embedder.y_embedding", r.m.ModelMaxLength, r.m.CaptionChannels)
		texts = append(texts, r.upload([][]float32{pick(null, r.m.CaptionChannels, mask)})...)
	}
	size := sizeOf(c.OutShape[2], c.OutShape[3], c.OutShape[4])
	p, err := r.m.Prepare(r.be, size, c.conditions(), texts)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// imageCase conditions a run of Open-Sora 1.3 on given frames.
type imageCase struct {
	MaskIndex   []int   `json:"mask_index"`
	Scale       float32 `json:"image_cfg_scale"`
	SDEdit      bool    `json:"use_sdedit"`
	Oscillation bool    `json:"image_oscillation"`
}

// condition gives the hashed frames of the case to the rows of the prompt and of the null text. The third branch of
// guidance gets none.
func (r harness) condition(t *testing.T, c goldenCase, p *Prepared) *sampler.Image {
	t.Helper()
	shape := append([]int{c.OutShape[0], r.m.InChannels}, c.OutShape[2:]...)
	m := &sampler.Image{Latents: nntest.Hash(c.NoisePrefix+".cond", 1, shape...), Given: make([]bool, shape[2]),
		Scale: c.Image.Scale, Oscillate: c.Image.Oscillation, Renoise: c.Image.SDEdit, Ramp: true}
	for _, f := range c.Image.MaskIndex {
		m.Given[f] = true
	}
	where := make([]float32, len(m.Latents))
	for i := range where {
		if m.Given[i/(shape[3]*shape[4])%shape[2]] {
			where[i] = 1
		} else {
			m.Latents[i] = 0
		}
	}
	shape[0] *= 3
	cond, mask := r.be.Alloc(kernels.F32, shape...), r.be.Alloc(kernels.F32, shape...)
	r.be.Upload(cond, slices.Concat(m.Latents, m.Latents, make([]float32, len(where))))
	r.be.Upload(mask, slices.Concat(where, where, where))
	if err := r.m.Condition(r.be, p, cond, mask, c.Image.MaskIndex); err != nil {
		t.Fatal(err)
	}
	return m
}
