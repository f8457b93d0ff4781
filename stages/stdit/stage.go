package stdit

import (
	"context"
	"errors"
	"fmt"

	"latentbeam/internal/fault"
	"latentbeam/internal/rng"
	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/nn"
	"latentbeam/stages/sampler"
)

const (
	// vaeStride is how many pixels a latent position spans in height and width.
	vaeStride = 8
	// latentScale is the factor between the VAE's latents and the denoiser's, in every Open-Sora 1.x.
	latentScale = 0.18215
)

// options is the stage's map in the YAML.
type options struct {
	// SequenceParallel is auto or the number of workers on one batch. It changes no value and no key.
	SequenceParallel string `yaml:"sequence_parallel" json:"-"`
	// GuidedChannels is how many latent channels guidance touches; default 3, as the reference.
	GuidedChannels int `yaml:"cfg_channel" json:"cfg_channel"`
}

// Spec returns the stage `denoise`: Open-Sora 1.0's STDiT under IDDPM turns noise into latents that
// follow the text.
func Spec() stages.Spec {
	return stages.Spec{
		Name:    "denoise",
		Doc:     "STDiT (Open-Sora 1.0) under IDDPM: text embeddings to latents; cfg_channel, sequence_parallel: auto",
		In:      stages.KindText,
		Out:     stages.KindLatents,
		Version: 1,
		Params: []stages.Param{stages.ParamSeed, stages.ParamHeight, stages.ParamWidth, stages.ParamNumFrames,
			stages.ParamSteps, stages.ParamGuidanceScale},
		New: open,
	}
}

func open(m *stages.Model, o stages.Options) (stages.Stage, error) {
	recipe, err := sampler.OpenSora("1.0")
	if err != nil {
		return nil, err
	}
	opts := options{SequenceParallel: "auto", GuidedChannels: recipe.GuidedChannels}
	if err := o.Into(&opts); err != nil {
		return nil, err
	}
	if opts.SequenceParallel != "auto" && opts.SequenceParallel != "1" {
		return nil, fmt.Errorf("denoise: sequence_parallel is %q: this version runs a batch on one worker; "+
			"write auto, and set resources.workers for several batches at once", opts.SequenceParallel)
	}
	model, err := nn.OpenComponent(m, "transformer", ParseConfig, Load)
	if err != nil {
		return nil, err
	}
	cfg := model.Config
	if opts.GuidedChannels < 1 || opts.GuidedChannels > cfg.InChannels {
		return nil, fmt.Errorf("denoise: cfg_channel is %d: give 1 to %d, the latent channels", opts.GuidedChannels, cfg.InChannels)
	}
	recipe.GuidedChannels = opts.GuidedChannels
	return &stage{model, recipe}, nil
}

type stage struct {
	*nn.Component[Config, Model]
	recipe sampler.Recipe
}

// Check refuses sizes that do not fall on whole patches and impossible numbers of steps.
func (s *stage) Check(row *schemas.PromptRow) error {
	for _, d := range []struct {
		name         string
		value, steps int
	}{
		{"height", row.Height, vaeStride * s.Config.PatchSize[1]},
		{"width", row.Width, vaeStride * s.Config.PatchSize[2]},
		{"num_frames", row.NumFrames, s.Config.PatchSize[0]},
	} {
		if d.value < d.steps || d.value%d.steps != 0 {
			low := max(d.steps, d.value/d.steps*d.steps)
			return fmt.Errorf("%s is %d: give a multiple of %d, such as %d", d.name, d.value, d.steps, low)
		}
	}
	if row.GuidanceScale == nil {
		return errors.New("guidance_scale is not given and the model has no default: Open-Sora 1.0 was published with 7")
	}
	return s.recipe.Check(row.NumInferenceSteps, clip(row))
}

// clip is what the schedule may depend on.
func clip(row *schemas.PromptRow) sampler.Clip {
	return sampler.Clip{Height: row.Height, Width: row.Width, Frames: row.NumFrames}
}

// Need is that of the network for texts of full length.
func (s *stage) Need(row *schemas.PromptRow, n int) (int64, error) {
	_, t, h, w := s.latents(row)
	if guided(row) {
		n *= 2
	}
	return s.Config.SampleBytes(n, t, h, w, s.Config.ModelMaxLength)
}

// latents returns the shape (C, T, H, W) of a row's latents.
func (s *stage) latents(row *schemas.PromptRow) (c, t, h, w int) {
	return s.Config.InChannels, row.NumFrames, row.Height / vaeStride, row.Width / vaeStride
}

// guided reports whether the row is computed with an unconditional half. At scale 1 that half would
// cancel out.
func guided(row *schemas.PromptRow) bool { return row.Guidance() != 1 }

// Run samples the whole batch. The noise of an element depends on its seed, its sample index and the
// step alone, so neither the batch nor a restart shows in the result.
func (s *stage) Run(ctx context.Context, dev kernels.Backend, batch []*stages.Element) error {
	model, err := s.On(dev)
	if err != nil {
		return err
	}
	if batch = s.checkTexts(batch); len(batch) == 0 {
		return nil
	}
	row := &batch[0].Row
	c, t, h, w := s.latents(row)
	plan, err := s.recipe.New(row.NumInferenceSteps, clip(row))
	if err != nil {
		return err
	}
	net := &evaluation{dev: dev, model: model, shape: []int{c, t, h, w}}
	defer dev.Scope()()
	if err := net.prepare(batch, guided(row)); err != nil {
		return err
	}
	size := c * t * h * w
	z := make([]float32, len(batch)*size)
	b := sampler.Batch{N: len(batch), Channels: c, Size: t * h * w}
	for i, e := range batch {
		rng.Normals(z[i*size:(i+1)*size], uint64(*e.Row.Seed), uint32(e.Row.SampleIndex), 0, 0)
		if guided(row) {
			b.Guidance = append(b.Guidance, float32(e.Row.Guidance()))
		}
	}
	noise := func(d sampler.Draw, i int, dst []float32) {
		rng.Normals(dst, uint64(*batch[i].Row.Seed), uint32(batch[i].Row.SampleIndex), uint32(d.Step+1), 0)
	}
	if err := plan.Sample(ctx, b, z, net.evaluate, noise, nil); err != nil {
		return err
	}
	for i, e := range batch {
		e.Latents = &stages.Array{Shape: []int{c, t, h, w}, Data: z[i*size : (i+1)*size : (i+1)*size]}
		e.LatentScale = latentScale
	}
	return nil
}

// checkTexts fails the elements whose text does not fit the model and returns the others.
func (s *stage) checkTexts(batch []*stages.Element) []*stages.Element {
	var fit []*stages.Element
	for _, e := range batch {
		err := s.checkText(e.Text.Embedding)
		if err == nil && e.Text.Negative != nil {
			err = s.checkText(e.Text.Negative)
		}
		if err != nil {
			e.Fail("denoise", fault.Row(err))
			continue
		}
		fit = append(fit, e)
	}
	return fit
}

func (s *stage) checkText(a *stages.Array) error {
	if len(a.Shape) != 2 || a.Shape[0] < 1 || a.Shape[1] != s.Config.CaptionChannels {
		return fmt.Errorf("the text embedding has shape %v, the model takes (tokens, %d)", a.Shape, s.Config.CaptionChannels)
	}
	if a.Shape[0] > s.Config.ModelMaxLength {
		return fmt.Errorf("the text has %d tokens, the model takes %d: lower max_sequence_length", a.Shape[0], s.Config.ModelMaxLength)
	}
	return nil
}

// evaluation is the network applied to one batch on its device.
type evaluation struct {
	dev   kernels.Backend
	model *Model
	shape []int // (C, T, H, W) of one element
	texts *Prepared
	out   []float32
}

// prepare brings the texts to the device: the prompts, then under guidance the null caption cut to each
// prompt's length, or the negative prompt.
func (r *evaluation) prepare(batch []*stages.Element, guided bool) (err error) {
	var texts []kernels.Tensor
	upload := func(a *stages.Array) {
		t := r.dev.Alloc(kernels.F32, a.Shape...)
		r.dev.Upload(t, a.Data)
		texts = append(texts, t)
	}
	for _, e := range batch {
		upload(e.Text.Embedding)
	}
	if guided {
		for _, e := range batch {
			if e.Text.Negative != nil {
				upload(e.Text.Negative)
			} else {
				texts = append(texts, r.model.NullText(r.dev, e.Text.Embedding.Shape[0]))
			}
		}
	}
	r.texts, err = r.model.Prepare(r.dev, r.shape[1], r.shape[2], r.shape[3], texts)
	return err
}

// evaluate is the network as the sampler sees it.
func (r *evaluation) evaluate(_ context.Context, rows, timesteps []float32, _ []bool) ([]float32, error) {
	defer r.dev.Scope()()
	x := r.dev.Alloc(kernels.F32, append([]int{len(timesteps)}, r.shape...)...) // (B, C, T, H, W)
	r.dev.Upload(x, rows)
	out, err := r.model.Forward(r.dev, x, timesteps, r.texts) // (B, 2C, T, H, W)
	if err != nil {
		return nil, err
	}
	if len(r.out) != out.Len() {
		r.out = make([]float32, out.Len())
	}
	return r.out, r.dev.Download(r.out, out)
}
