package wan

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

// Denoiser returns the family of Wan for the stage `denoise`.
func Denoiser() dit.Family {
	return dit.Family{
		Name: "Wan", Models: "text and image to video of 2.1 and 2.2",
		Options:    "flow_solver, flow_sigmas, flow_shift, boundary_ratio, vsa",
		Checkpoint: family(), Process: sampler.FlowMatching,
		Pipelines: map[string]string{PipelineName: "text to video", DMDName: "text to video in three steps", ImageName: "image to video"},
		Recognise: func(config []byte) bool {
			class, err := dit.ClassName(config)
			return err == nil && (class == className || class == originalClass)
		},
		Open: func(configs dit.Configs, o stages.Options) (dit.Network, error) {
			cfg, err := ParseConfig(configs.Config)
			if err != nil {
				return nil, err
			}
			solver, err := solverOf(configs)
			return open(cfg, published{solver, configs.Index, err, configs.Solvers}, o)
		},
	}
}

// Class names in model_index.json for whole models. DMDName models were distilled to three steps by FastVideo.
const (
	PipelineName = "WanPipeline"
	ImageName    = "WanImageToVideoPipeline"
	DMDName      = "WanDMDPipeline"
)

// publishedNegative is the original code's negative prompt for rows without one.
const publishedNegative = "色调艳丽，过曝，静态，细节模糊不清，字幕，风格，作品，画作，画面，静止，整体发灰，最差质量，低质量，JPEG压缩残留，" +
	"丑陋的，残缺的，多余的手指，画得不好的手部，画得不好的脸部，畸形的，毁容的，形态畸形的肢体，手指融合，静止不动的画面，杂乱的背景，" +
	"三条腿，背景人很多，倒着走"

// solverOf returns the sampling configuration of the model's scheduler_config.json, the zero value if there is none.
func solverOf(configs dit.Configs) (sampler.WanConfig, error) {
	if configs.Index.ClassName == DMDName { // its own code ignores its scheduler_config.json
		return sampler.WanConfig{Solver: "dmd"}, nil
	}
	if configs.Scheduler == nil {
		return sampler.WanConfig{}, nil
	}
	s, err := sampler.ParseScheduler(configs.Scheduler, sampler.FlowMatching)
	var unknown *sampler.UnknownScheduler
	switch {
	case errors.As(err, &unknown):
		return sampler.WanConfig{Shift: unknown.Shift}, fmt.Errorf("%w. `flow_solver: unipc` of denoise (or euler, dmd) is taken in its place", err)
	case err != nil:
		return sampler.WanConfig{}, err
	}
	return s.Wan(), nil
}

// options are the options of the stage for a network of this family.
type options struct {
	dit.Options
	// FlowSolver is unipc, euler or dmd. FlowSigmas is a published table: diffusers, wan or distilled. FlowShift moves the
	// steps towards the noise. The defaults come from the model's scheduler_config.json; without one they are unipc, diffusers
	// and 3. Values that differ from unipc, diffusers and 3 are part of the keys, whether they come from the file or the job.
	FlowSolver string   `yaml:"flow_solver" json:"flow_solver,omitempty"`
	FlowSigmas string   `yaml:"flow_sigmas" json:"flow_sigmas,omitempty"`
	FlowShift  *float64 `yaml:"flow_shift" json:"flow_shift,omitempty"`
	// BoundaryRatio is the part of the training process at which the second denoiser takes over. The default comes from
	// model_index.json; models with one denoiser have none.
	BoundaryRatio *float64 `yaml:"boundary_ratio" json:"boundary_ratio,omitempty"`
	// VSA is dense for models that were distilled with FastVideo's sparse attention: they run with full attention, without its
	// gates (to_gate_compress). Models without gates do not have the option.
	VSA string `yaml:"vsa" json:"vsa,omitempty"`
}

// vsaDense is the value of options.VSA.
const vsaDense = "dense"

// published holds the sampling settings of the model's own files.
type published struct {
	solver  sampler.WanConfig
	index   stages.Index
	problem error // error of the scheduler's file
	solvers []sampler.Solver
}

// denoiser is a model of the family, with the options of a job.
type denoiser struct {
	Config
	options  dit.Options
	recipe   sampler.Recipe
	negative string  // for rows that have none
	boundary float32 // timestep below which the second denoiser computes; 0: there is one
	input    dit.ImageInput

	magnitudes func(image bool) *dit.MagRatios // see dit.Description
}

// open applies the options of a job to a configuration.
func open(cfg Config, p published, o stages.Options) (*denoiser, error) {
	var opts options
	if err := o.Into(&opts); err != nil {
		return nil, err
	}
	if err := opts.choose(); err != nil {
		return nil, fmt.Errorf("denoise: %w", err)
	}
	var unknown *sampler.UnknownScheduler
	if p.problem != nil && (opts.FlowSolver == "" && opts.Sampler == nil || !errors.As(p.problem, &unknown)) {
		return nil, p.problem
	}
	if opts.DType == "" {
		opts.DType = "fp32" // it is part of the keys, because the default may become bf16
	}
	var ok bool
	if cfg.DType, ok = map[string]kernels.DType{"fp32": kernels.F32, "bf16": kernels.BF16}[opts.DType]; !ok {
		return nil, fmt.Errorf("denoise: %w", stages.Errorf("dtype", "dtype is %q: give fp32 or bf16", opts.DType))
	}
	switch opts.VSA {
	case "", vsaDense:
		cfg.DenseVSA = opts.VSA == vsaDense
	default:
		return nil, fmt.Errorf("denoise: %w", stages.Errorf("vsa", "vsa is %q: give dense, or leave it out", opts.VSA))
	}
	if err := opts.publish(p); err != nil {
		return nil, fmt.Errorf("denoise: %w", err)
	}
	recipe, err := opts.recipe(p.solvers)
	if err != nil {
		return nil, fmt.Errorf("denoise: %w", err)
	}
	if err := opts.Check("Wan", cfg.OutChannels, 0); err != nil {
		return nil, fmt.Errorf("denoise: %w", err)
	}
	cfg.Int8 = opts.Int8()
	magnitudes, err := magnitudes(&cfg, opts.BoundaryRatio != nil, opts.Cache)
	if err != nil {
		return nil, fmt.Errorf("denoise: %w", err)
	}
	d := &denoiser{Config: cfg, options: opts.Options, recipe: recipe, negative: schemas.None, input: cfg.imageInput(p.index),
		magnitudes: magnitudes}
	if opts.BoundaryRatio != nil {
		d.boundary = float32(*opts.BoundaryRatio * trainingSteps)
	}
	if c := p.index.ClassName; c == PipelineName || c == ImageName || c == DMDName {
		d.negative = publishedNegative
	}
	return d, nil
}

// imageInput returns how the network takes the image of a row. TI2V models take a timestep for each token.
func (c Config) imageInput(index stages.Index) dit.ImageInput {
	switch {
	case c.extraChannels() > 0:
		return dit.BesideLatents
	case index.ExpandTimesteps || c.stride() == 16:
		return dit.FirstFrame
	}
	return dit.NoImageInput
}

// trainingSteps is the length of the training process.
const trainingSteps = 1000

// publish fills in options that the job does not set. A value that is the default without a scheduler is not added to the key.
func (o *options) publish(p published) error {
	own := sampler.WanConfig{Solver: o.FlowSolver, Sigmas: o.FlowSigmas}
	if o.FlowSolver == "" && o.Sampler == nil && p.solver.Solver != "unipc" {
		o.FlowSolver = p.solver.Solver
	}
	if v := o.FlowShift; v != nil && !(*v > 0) {
		return stages.Errorf("flow_shift", "flow_shift is %g: give a number above 0, or leave it out", *v)
	}
	if v := o.BoundaryRatio; v != nil && !(*v > 0 && *v <= 1) {
		return stages.Errorf("boundary_ratio", "boundary_ratio is %g: give a number above 0, at most 1, or leave it out", *v)
	}
	// Models of few steps have a shift of their own. For all others 3 is the default.
	if s := p.solver.Shift; o.FlowShift == nil && s != 0 && s != 3 && !own.Distilled() {
		o.FlowShift = &s
	}
	o.BoundaryRatio = cmp.Or(o.BoundaryRatio, p.index.BoundaryRatio)
	if v := o.BoundaryRatio; v != nil && !(*v > 0 && *v <= 1) {
		return fmt.Errorf("model_index.json: boundary_ratio is %g: give a number above 0, at most 1, or null", *v)
	}
	return nil
}

// choose replaces the option sampler by flow_solver, flow_sigmas and flow_shift, so that both ways of writing have the same
// key. A solver of another module stays in Sampler, with the model's shift.
func (o *options) choose() error {
	c := o.Sampler
	if c == nil {
		return nil
	}
	if o.FlowSolver != "" || o.FlowSigmas != "" || o.FlowShift != nil {
		return stages.Errorf("sampler", "sampler and flow_solver, flow_sigmas or flow_shift are given: write all of it into sampler")
	}
	if err := c.Only("Wan", "sigmas", "shift"); err != nil {
		return &stages.OptionError{Key: "sampler", Err: err}
	}
	o.FlowShift = c.Shift
	if c.Name == "" || slices.Contains(sampler.WanSolvers(), c.Name) {
		o.FlowSolver, o.FlowSigmas, o.Sampler = c.Name, c.Sigmas, nil
	}
	return nil
}

// recipe returns the sampling recipe for the options.
func (o *options) recipe(solvers []sampler.Solver) (sampler.Recipe, error) {
	c := sampler.WanConfig{Solver: o.FlowSolver, Sigmas: o.FlowSigmas}
	if o.FlowShift != nil {
		c.Shift = *o.FlowShift
	}
	own, err := sampler.Wan(c)
	if err != nil || o.Sampler == nil {
		return own, err
	}
	chosen := *o.Sampler
	if chosen.Shift = o.FlowShift; chosen.Shift == nil {
		usual := 3.0
		chosen.Shift = &usual
	}
	recipe, err := sampler.Choose(chosen, solvers, sampler.FlowMatching, "Wan", sampler.WanSolvers()...)
	if err != nil {
		return recipe, &stages.OptionError{Key: "sampler", Err: err}
	}
	o.Sampler = &chosen
	return recipe.Or(own), nil
}

// Describe returns what the stage must know about the network.
func (d *denoiser) Describe() dit.Description {
	naming := schemas.Wan
	if d.stride() == 16 {
		naming = schemas.WanTI2V
	}
	return dit.Description{Name: "Wan", Naming: naming, Channels: d.OutChannels, OutChannels: d.OutChannels, Patch: d.PatchSize,
		Hidden: d.Hidden(), Heads: d.Heads, Blocks: d.Layers, Sums: 3, Full: true, DType: d.DType,
		TextWidth: d.TextWidth, TextTokens: textTokens, PadsText: true,
		UnguidedTo1: true, Options: d.options, Recipe: d.recipe, LatentScale: 1,
		NoNegative: d.negative, Published: d.published(), Boundary: d.boundary, Params: d.params(),
		Conditions: dit.Conditions{Input: d.input, Marked: d.input == dit.FirstFrame}, Magnitudes: d.magnitudes}
}

// params returns the columns that only some models depend on.
func (d *denoiser) params() (out []stages.Param) {
	out = append(out, stages.ParamTextLength)
	if d.boundary > 0 {
		out = append(out, stages.ParamGuidanceScale2)
	}
	if d.input != dit.NoImageInput {
		out = append(out, stages.ParamReference)
	}
	return out
}

// published returns the published parameters, without a size if the model is too small for it.
func (d *denoiser) published() schemas.PromptRow {
	guidance, second := d.recipe.GuidanceScale, 3.0
	row := schemas.PromptRow{NumInferenceSteps: d.recipe.NumInferenceSteps, GuidanceScale: &guidance, FPS: 16,
		MaxSequenceLength: textTokens}
	if d.boundary > 0 { // A14B
		guidance = 4
		if d.input == dit.BesideLatents {
			guidance, second = 3.5, 3.5
		}
		row.NumInferenceSteps, row.GuidanceScale2 = 40, &second
	}
	sized := row
	sized.Height, sized.Width, sized.NumFrames = 480, 832, 81
	if d.stride() == 16 { // TI2V-5B
		row.FPS, sized.FPS = 24, 24
		sized.Height, sized.Width, sized.NumFrames = 704, 1280, 121
	}
	if d.checkSize(&sized) != nil {
		return row
	}
	return sized
}

// strideT is the number of frames that the autoencoders turn into one latent frame.
const strideT = 4

// LatentSize returns the size of a row's latents.
func (d *denoiser) LatentSize(row *schemas.PromptRow) dit.LatentSize {
	return dit.LatentSize{T: (row.NumFrames-1)/strideT + 1, H: row.Height / d.stride(), W: row.Width / d.stride()}
}

// Check returns an error for sizes and guidance that the model does not support.
func (d *denoiser) Check(row *schemas.PromptRow) error {
	if err := d.checkSize(row); err != nil {
		return err
	}
	switch {
	case row.MaxSequenceLength > textTokens:
		return fmt.Errorf("max_sequence_length is %d: Wan takes texts of 1 to %d tokens", row.MaxSequenceLength, textTokens)
	case row.Loop > 1:
		return errors.New("loop is given: Wan makes one clip")
	case d.input == dit.BesideLatents && row.Reference == "":
		return errors.New("reference is missing: this model makes videos from images; give the image that the video begins with")
	case d.ImageDim != nil && d.ImageTokens == nil && hasLastFrame(row):
		return errors.New("reference has two images: this model takes the first frame alone")
	case d.ImageTokens != nil && !hasLastFrame(row):
		return errors.New("reference has one image: this model takes the first and the last frame, FIRST;LAST")
	}
	return nil
}

func (d *denoiser) checkSize(row *schemas.PromptRow) error {
	size, token := d.LatentSize(row), 2*d.stride()
	switch {
	case row.NumFrames < 1 || row.NumFrames%strideT != 1:
		return fmt.Errorf("num_frames is %d: give 4 n + 1, such as %d", row.NumFrames, schemas.NearestFrames(row.NumFrames, 4, 1))
	case row.Height < token || row.Height%token != 0:
		return fmt.Errorf("height is %d: give a multiple of %d", row.Height, token)
	case row.Width < token || row.Width%token != 0:
		return fmt.Errorf("width is %d: give a multiple of %d", row.Width, token)
	case max(size.T, size.H/2, size.W/2) > d.MaxPositions:
		return fmt.Errorf("%d frames of %dx%d make latents of %dx%dx%d: the model has positions for %d frames, rows and "+
			"columns of tokens", row.NumFrames, row.Height, row.Width, size.T, size.H, size.W, d.MaxPositions)
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
