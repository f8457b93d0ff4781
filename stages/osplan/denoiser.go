package osplan

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/diffuse/sampler"
	"latentbeam/stages/weights"
)

// Denoiser returns the family of Open-Sora-Plan for the stage `denoise`.
func Denoiser() dit.Family {
	return dit.Family{
		Name: "Open-Sora-Plan", Models: "1.2 and 1.3",
		Options:    "sample_method, prediction_type, timestep_spacing, rescale_betas_zero_snr, padded_box",
		Checkpoint: family(), Process: sampler.VariancePreserving,
		Pipelines: map[string]string{stages.PlanPipeline: "text to video"},
		Recognise: func(config []byte) bool {
			class, err := dit.ClassName(config)
			return err == nil && (class == class12 || class == class13 || refused[class] != "")
		},
		Open: func(configs dit.Configs, o stages.Options) (dit.Network, error) {
			cfg, err := ParseConfig(configs.Config)
			if err != nil {
				return nil, err
			}
			p := published{solvers: configs.Solvers}
			if configs.Scheduler != nil {
				s, err := sampler.ParseScheduler(configs.Scheduler, sampler.VariancePreserving)
				if err != nil {
					return nil, err
				}
				c := s.VP()
				p.solver = &c
			}
			return open(cfg, p, o)
		},
	}
}

// NegativePrompt is the negative prompt of the published scripts of both versions, with their line breaks and indentation.
const NegativePrompt = `
    nsfw, lowres, bad anatomy, bad hands, text, error, missing fingers, extra digit, fewer digits, cropped, worst quality, 
    low quality, normal quality, jpeg artifacts, signature, watermark, username, blurry.
    `

// options are the options of the stage for a network of this family.
type options struct {
	dit.Options
	// SampleMethod is euler_ancestral, which the published scripts use, or pndm. PredictionType is epsilon or v_prediction,
	// TimestepSpacing is linspace, leading or trailing. RescaleBetasZeroSNR makes the process end in pure noise. The defaults
	// come from the model's scheduler_config.json; without one they come from the published scripts: epsilon and linspace for
	// version 1.2; v_prediction, trailing and true for 1.3. Without rescaled betas 1.3 uses leading steps; pndm always does.
	SampleMethod        string `yaml:"sample_method" json:"sample_method,omitempty"`
	PredictionType      string `yaml:"prediction_type" json:"prediction_type,omitempty"`
	TimestepSpacing     string `yaml:"timestep_spacing" json:"timestep_spacing,omitempty"`
	RescaleBetasZeroSNR *bool  `yaml:"rescale_betas_zero_snr" json:"rescale_betas_zero_snr,omitempty"`
	// PaddedBox is latent frames, rows and columns: every row is denoised in the corner of a box of this size, and the other
	// tokens are masked, as training pads its buckets. In version 1.2 the box does not change the result. In 1.3 it does,
	// because the sparse blocks divide the tokens of the box.
	PaddedBox []int `yaml:"padded_box" json:"padded_box,omitempty"`
}

// denoiser is a model of the family, with the options of a job.
type denoiser struct {
	Config
	options dit.Options
	recipe  sampler.Recipe
	box     dit.LatentSize
}

// published holds the sampling settings of the model's own files.
type published struct {
	solver  *sampler.VPConfig // nil: they do not say
	solvers []sampler.Solver
}

// open applies the options of a job to a configuration.
func open(cfg Config, p published, o stages.Options) (*denoiser, error) {
	var opts options
	if err := o.Into(&opts); err != nil {
		return nil, err
	}
	if opts.DType == "" {
		opts.DType = "fp32"
	}
	var ok bool
	if cfg.DType, ok = map[string]kernels.DType{"fp32": kernels.F32, "bf16": kernels.BF16}[opts.DType]; !ok {
		return nil, fmt.Errorf("denoise: %w", stages.Errorf("dtype", "dtype is %q: give fp32 or bf16", opts.DType))
	}
	err := opts.choose()
	if err != nil {
		return nil, fmt.Errorf("denoise: %w", err)
	}
	recipe, err := opts.recipe(cfg, p)
	if err != nil {
		return nil, fmt.Errorf("denoise: %w", err)
	}
	box, err := opts.box()
	if err != nil {
		return nil, fmt.Errorf("denoise: %w", err)
	}
	if err := opts.Check("Open-Sora-Plan", cfg.InChannels, 0); err != nil {
		return nil, fmt.Errorf("denoise: %w", err)
	}
	cfg.Int8 = opts.Int8()
	return &denoiser{Config: cfg, options: opts.Options, recipe: recipe, box: box}, nil
}

// choose replaces the option sampler by sample_method and related options, so that both ways of writing have the same key. A
// solver of another module stays in Sampler.
func (o *options) choose() error {
	c := o.Sampler
	if c == nil {
		return nil
	}
	if o.SampleMethod != "" || o.PredictionType != "" || o.TimestepSpacing != "" || o.RescaleBetasZeroSNR != nil {
		return stages.Errorf("sampler", "sampler and sample_method, prediction_type, timestep_spacing or rescale_betas_zero_snr are "+
			"given: write all of it into sampler")
	}
	if err := c.Only("Open-Sora-Plan", "prediction_type", "timestep_spacing", "rescale_betas_zero_snr"); err != nil {
		return &stages.OptionError{Key: "sampler", Err: err}
	}
	o.PredictionType, o.TimestepSpacing, o.RescaleBetasZeroSNR = c.PredictionType, c.TimestepSpacing, c.RescaleBetasZeroSNR
	if c.Name == "" || slices.Contains(sampler.VPSolvers(), c.Name) {
		o.SampleMethod, o.Sampler = c.Name, nil
	}
	return nil
}

// recipe returns the sampling recipe. It clears options that have the version's default value, because only other values are
// part of the keys.
func (o *options) recipe(cfg Config, p published) (sampler.Recipe, error) {
	usual := scripted(cfg)
	base := usual
	if p.solver != nil {
		base = *p.solver
	}
	c := base
	c.Solver, c.Prediction = cmp.Or(o.SampleMethod, base.Solver), cmp.Or(o.PredictionType, base.Prediction)
	if o.RescaleBetasZeroSNR != nil {
		c.ZeroSNR = *o.RescaleBetasZeroSNR
	} else if c.Solver != base.Solver {
		c.ZeroSNR = c.ZeroSNR && c.Solver != pndm
	}
	if c.Spacing = o.TimestepSpacing; c.Spacing == "" {
		if c.Spacing = base.Spacing; c.Solver != base.Solver || c.ZeroSNR != base.ZeroSNR {
			c.Spacing = spacing(cfg, c)
		}
	}
	chosen := o.Sampler
	*o = options{Options: o.Options, PaddedBox: o.PaddedBox, SampleMethod: clearUsual(c.Solver, usual.Solver),
		PredictionType: clearUsual(c.Prediction, usual.Prediction), TimestepSpacing: clearUsual(c.Spacing, usual.Spacing)}
	if c.ZeroSNR != usual.ZeroSNR {
		o.RescaleBetasZeroSNR = &c.ZeroSNR
	}
	own, err := sampler.VP(c)
	if err != nil || chosen == nil {
		return own, err
	}
	// The key of a solver of another module contains all effective settings.
	o.Sampler = &sampler.Choice{Name: chosen.Name, PredictionType: c.Prediction, TimestepSpacing: c.Spacing, RescaleBetasZeroSNR: &c.ZeroSNR}
	recipe, err := sampler.Choose(*o.Sampler, p.solvers, sampler.VariancePreserving, "Open-Sora-Plan", sampler.VPSolvers()...)
	if err != nil {
		return recipe, &stages.OptionError{Key: "sampler", Err: err}
	}
	return recipe.Or(own), nil
}

// clearUsual returns v, or "" if v is the usual value.
func clearUsual(v, usual string) string {
	if v == usual {
		return ""
	}
	return v
}

// The samplers of the published scripts.
const ancestral, pndm = "euler_ancestral", "pndm"

// scripted returns how the published scripts of a version sample.
func scripted(cfg Config) sampler.VPConfig {
	c := sampler.VPConfig{Solver: ancestral, Prediction: "epsilon"}
	if cfg.Sparse {
		c.Prediction, c.ZeroSNR = "v_prediction", true
	}
	c.Spacing = spacing(cfg, c)
	return c
}

// spacing returns the published scripts' spacing for a scheduler: in version 1.2 the class's default, in 1.3 it depends on the
// betas.
func spacing(cfg Config, c sampler.VPConfig) string {
	switch {
	case cfg.Sparse && c.ZeroSNR:
		return "trailing"
	case cfg.Sparse || c.Solver == pndm:
		return "leading"
	}
	return "linspace"
}

// box returns PaddedBox as a size.
func (o *options) box() (dit.LatentSize, error) {
	b := o.PaddedBox
	if b == nil {
		return dit.LatentSize{}, nil
	}
	if len(b) != 3 || min(b[0], b[1], b[2]) < 1 || max(b[0], b[1], b[2]) > maxPositions || b[1]%2 != 0 || b[2]%2 != 0 {
		return dit.LatentSize{}, stages.Errorf("padded_box", "padded_box is %v: give latent frames, rows and columns such as "+
			"[24, 60, 80], the last two even, at most %d", b, maxPositions)
	}
	return dit.LatentSize{T: b[0], H: b[1], W: b[2]}, nil
}

// maxPositions limits the latents on every axis.
const maxPositions = 1 << 12

// Describe returns what the stage must know about the network.
func (d *denoiser) Describe() dit.Description {
	return dit.Description{Name: "Open-Sora-Plan", Naming: schemas.OpenSoraPlan, Channels: d.InChannels, OutChannels: d.OutChannels, Patch: d.patch(),
		Hidden: d.Hidden(), Heads: d.Heads, Blocks: d.Layers, Sums: 3, Full: true, Scored: d.scored(), DType: d.DType,
		TextWidth: d.TextWidth, TextTokens: textTokens, Options: d.options, Recipe: d.recipe, LatentScale: d.latentScale(),
		NoNegative: NegativePrompt, Published: d.published(), Box: d.box}
}

// latentScale returns the factor on the autoencoder's latents. WF-VAE of version 1.3 scales them itself.
func (d *denoiser) latentScale() float64 {
	if d.Sparse {
		return 1
	}
	return 0.18215
}

// scored returns the part of token pairs that attention scores, averaged over the blocks.
func (d *denoiser) scored() float64 {
	sum := 0.0
	for i := range d.Layers {
		sum += 1 / float64(max(1, d.skip(i).Ways))
	}
	return sum / float64(d.Layers)
}

// published returns the published parameters, with the size of training if config.json has one.
func (d *denoiser) published() schemas.PromptRow {
	guidance := d.recipe.GuidanceScale
	row := schemas.PromptRow{NumInferenceSteps: d.recipe.NumInferenceSteps, GuidanceScale: &guidance, FPS: 24,
		MaxSequenceLength: textTokens}
	h, w := d.Sample[0], d.Sample[1]
	if d.Sparse {
		row.FPS, h, w = 18, d.SampleH, d.SampleW
	}
	sized := row
	sized.Height, sized.Width, sized.NumFrames = h*stride, w*stride, (d.SampleT-1)*strideT+1
	if d.Check(&sized) != nil {
		return row
	}
	return sized
}

// The size of a latent position: pixels in rows and columns, and frames after the first.
const stride, strideT = 8, 4

// LatentSize returns the size of a row's latents.
func (d *denoiser) LatentSize(row *schemas.PromptRow) dit.LatentSize {
	return dit.LatentSize{T: (row.NumFrames-1)/strideT + 1, H: row.Height / stride, W: row.Width / stride}
}

// Check returns an error for sizes and guidance that the model does not support.
func (d *denoiser) Check(row *schemas.PromptRow) error {
	size := d.LatentSize(row)
	switch guidance := row.Guidance(); {
	case row.NumFrames < 1 || row.NumFrames%strideT != 1:
		return fmt.Errorf("num_frames is %d: give 4 n + 1, such as %d", row.NumFrames, schemas.NearestFrames(row.NumFrames, 4, 1))
	case row.Height < 2*stride || row.Height%(2*stride) != 0:
		return fmt.Errorf("height is %d: give a multiple of %d", row.Height, 2*stride)
	case row.Width < 2*stride || row.Width%(2*stride) != 0:
		return fmt.Errorf("width is %d: give a multiple of %d", row.Width, 2*stride)
	case max(size.T, size.H, size.W) > maxPositions:
		return fmt.Errorf("%d frames of %dx%d make latents of %dx%dx%d: give at most %d on an axis", row.NumFrames, row.Height,
			row.Width, size.T, size.H, size.W, maxPositions)
	case d.box != (dit.LatentSize{}) && (size.T > d.box.T || size.H > d.box.H || size.W > d.box.W):
		return fmt.Errorf("%d frames of %dx%d make latents of %dx%dx%d, which do not fit padded_box [%d, %d, %d]",
			row.NumFrames, row.Height, row.Width, size.T, size.H, size.W, d.box.T, d.box.H, d.box.W)
	case row.GuidanceScale != nil && guidance < 1:
		return fmt.Errorf("guidance_scale is %g: Open-Sora-Plan takes 1, which is none, and more", guidance)
	case row.Loop > 1:
		return errors.New("loop is given: Open-Sora-Plan makes one clip")
	}
	return nil
}

// Load reads the weights.
func (d *denoiser) Load(w *weights.Weights) (dit.Model, error) {
	m, err := Load(d.Config, w)
	if err != nil {
		return nil, err
	}
	return m, nil
}
