package vae

import (
	"context"
	"errors"

	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
	"latentbeam/stages/cost"
	"latentbeam/stages/nn"
	"latentbeam/stages/rng"
)

// encodeOptions are the options of encode_vae in the YAML.
type encodeOptions struct {
	// MicroBatchSize is the number of frames that are encoded at a time. It limits memory and does not change values.
	MicroBatchSize int `yaml:"micro_batch_size" json:"-"`
	// Posterior is mean, as trainers cache latents, or sample. Samples depend on the seed.
	Posterior string `yaml:"posterior" json:"posterior"`
	DType     string `yaml:"dtype" json:"dtype,omitempty"` // of weights and activations: fp32, bf16 or fp16
	// Store is the type of the latents and of their table: float32 or bfloat16.
	Store string `yaml:"store" json:"store,omitempty"`
}

// Encode returns the stage `encode_vae`: it encodes the frames of a video or an image to latents. Frames are resampled to the
// row's fps (the frame on screen at each moment, from the first on), resized and cropped to its size, as opensora/datasets does
// with "resize_crop" (see media.Fitter).
func Encode() stages.Spec {
	return stages.Spec{
		Name: "encode_vae",
		Doc: "autoencoder: videos (y4m, folders of images, others through ffmpeg) and images to latents; " +
			"posterior: mean or sample, store: float32 or bfloat16, dtype: fp32, bf16 or fp16",
		In:      stages.KindMedia,
		Out:     stages.KindLatents,
		Version: 2,
		Params: []stages.Param{stages.ParamMedia, stages.ParamHeight, stages.ParamWidth, stages.ParamNumFrames,
			stages.ParamFPS, stages.ParamCut},
		Readings: []string{schemas.ReadingDecodeErrors, schemas.ReadingTransfer, schemas.ReadingSourceMarks},
		New:      openEncoder,
	}
}

func openEncoder(m *stages.Model, o stages.Options) (stages.Stage, error) {
	s, err := openEncodeStage("encode_vae", "mean", m, o)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// openEncodeStage opens the common part of encode_vae and encode_reference. name is the name of the stage, posterior its
// default.
func openEncodeStage(name, posterior string, m *stages.Model, o stages.Options) (*encodeStage, error) {
	opts := encodeOptions{MicroBatchSize: defaultMicroBatch, Posterior: posterior}
	if err := o.Into(&opts); err != nil {
		return nil, err
	}
	if opts.Store != "" && opts.Store != stages.Float32 && opts.Store != stages.BFloat16 {
		return nil, stages.Errorf("store", "%s: store is %q: give float32 or bfloat16", name, opts.Store)
	}
	if opts.Posterior != "sample" && opts.Posterior != "mean" {
		return nil, stages.Errorf("posterior", "%s: posterior is %q: give sample or mean", name, opts.Posterior)
	}
	c, err := openComponent(m, name, opts.MicroBatchSize, opts.DType)
	if err != nil {
		return nil, err
	}
	return &encodeStage{component: c, micro: opts.MicroBatchSize, sample: opts.Posterior == "sample", half: opts.Store == stages.BFloat16,
		recent: &recent{}, rehearsals: &nn.Rehearsals{}}, nil
}

type encodeStage struct {
	*component
	micro  int // frames encoded at a time
	sample bool
	half   bool // latents are rounded to bfloat16
	recent *recent

	rehearsals *nn.Rehearsals
}

// Capabilities says what the encoder can do beyond Run.
func (s *encodeStage) Capabilities() stages.Capabilities {
	return stages.Capabilities{Naming: s.Config.Naming(), Params: s.Params(), Loading: s.Loading(), LatentSpace: s.latentSpace, Cost: s.Cost,
		Spread: &stages.Spread{Width: s.Width, Run: s.RunSet}, LatentShape: s.Config.ShapeOf}
}

// latentSpace describes the latents for readers of tables.
func (s *encodeStage) latentSpace() stages.LatentSpace {
	space := s.Config.LatentSpace(s.Digest())
	space.Posterior, space.DType = "mean", stages.Float32
	if s.sample {
		space.Posterior = "sample"
	}
	if s.half {
		space.DType = stages.BFloat16
	}
	return space
}

// Params returns the seed if latents are samples. Spec cannot list it because it depends on the options.
func (s *encodeStage) Params() []stages.Param {
	if !s.sample {
		return nil
	}
	return []stages.Param{stages.ParamSeed}
}

// Check returns an error for clips that the autoencoder cannot encode.
func (s *encodeStage) Check(row *schemas.PromptRow) error {
	_, err := s.Config.ShapeOf(row)
	return err
}

// Need returns the memory for the frames that are encoded at a time, for the latents of all elements on the host (raw and the
// denoiser's), and for the pixels that are decoded ahead.
func (s *encodeStage) Need(row *schemas.PromptRow, n int) (int64, error) {
	encode, err := s.Config.EncodeBytes(row.NumFrames, row.Height, row.Width, s.micro)
	if err != nil {
		return 0, err
	}
	shape, err := s.Config.ShapeOf(row)
	if err != nil {
		return 0, err
	}
	ahead := min(aheadBytes, 12*int64(row.Height*row.Width)*int64(row.NumFrames)*int64(n))
	return encode + ahead + 8*int64(shape[0]*shape[1])*int64(shape[2]*shape[3])*int64(n), nil
}

// Cost returns the cost of all frames of a clip. Each device encodes some of their rows.
func (s *encodeStage) Cost(row *schemas.PromptRow) (cost.Estimate, error) {
	work, err := s.Config.EncodeWork(row.NumFrames, row.Height, row.Width, s.micro, s.rehearsals)
	all, _ := s.Bytes(s.Config.DType)
	return cost.Estimate{Weights: all, Work: work.Work(), Kernels: work, Pieces: s.pieces(row),
		Host: row.MediaSeconds}, err
}

// Run encodes the elements one after another, while the next ones are decoded. An element whose file cannot be read fails.
func (s *encodeStage) Run(ctx context.Context, dev kernels.Backend, batch []*stages.Element) error {
	model, err := s.On(dev)
	if err != nil {
		return err
	}
	clips := newReaders(ctx, dev, batch, s.sample, s.isKnown)
	defer clips.closeAll()
	for i, e := range batch {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		err := s.encode(dev, clips, i, func(c Video, draw Noise) (*stages.Array, error) {
			return model.Encode(dev, c, s.micro, draw)
		})
		if err := unreadable(ctx, "encode_vae", e, err); err != nil {
			return err
		}
		clips.close(i)
	}
	return nil
}

// isKnown reports whether the latents of a clip are cached.
func (s *encodeStage) isKnown(name string) bool { return s.recent.find(name).raw != nil }

// unreadable fails an element whose file cannot be read. It returns other errors.
func unreadable(ctx context.Context, stage string, e *stages.Element, err error) error {
	var bad *FootageError
	if errors.As(err, &bad) && ctx.Err() == nil {
		e.Fail(stage, fault.Row(bad.Err))
		return nil
	}
	return err
}

// encode sets the latents of element i of a batch. It takes the raw latents from the cache or computes them.
func (s *encodeStage) encode(dev kernels.Backend, clips *readers, i int,
	latents func(c Video, draw Noise) (*stages.Array, error)) error {
	e, name := clips.batch[i], clips.names[i]
	if known := s.recent.find(name); known.raw != nil {
		e.Read(known.readings)
		return s.assignLatents(dev, e, known.raw)
	}
	frames := clips.reader(i)
	raw, err := latents(clipOf(&e.Row, frameByFrame(frames.frame)), s.noise(&e.Row, 0))
	if err != nil {
		return err
	}
	if frames.next == e.Row.NumFrames { // after the last frame
		e.Read(frames.readings)
	}
	if err := s.assignLatents(dev, e, raw); err != nil {
		return err
	}
	if e.NotFinite(stages.KindLatents) == "" { // otherwise another attempt must compute them again
		s.recent.add(name, encoded{raw, frames.readings})
	}
	return nil
}

// noise returns the noise for samples, nil if latents are means.
func (s *encodeStage) noise(row *schemas.PromptRow, behind uint32) Noise {
	if !s.sample {
		return nil
	}
	return noise(row, behind)
}

// noise returns noise from the row's seed. behind is added to the autoencoder's steps.
func noise(row *schemas.PromptRow, behind uint32) Noise {
	return func(dst []float32, step uint32, offset uint64) {
		rng.Normals(dst, uint64(*row.Seed), uint32(row.SampleIndex), step+behind, offset)
	}
}

// clipOf returns the clip of a row.
func clipOf(row *schemas.PromptRow, pixels func(dst []float32, first, n int) error) Video {
	return Video{Frames: row.NumFrames, Height: row.Height, Width: row.Width, Pixels: pixels}
}

// frameByFrame returns a function that reads a clip's pixels frame by frame.
func frameByFrame(frame func(dst []float32, i int) error) func(dst []float32, first, n int) error {
	return func(dst []float32, first, n int) error {
		size := len(dst) / n
		for i := range n {
			if err := frame(dst[i*size:(i+1)*size], first+i); err != nil {
				return err
			}
		}
		return nil
	}
}

// assignLatents sets the latents of an element. With bfloat16 the denoiser's latents are rounded and no raw latents are set,
// because converting rounded raw latents would round twice and give other values.
func (s *encodeStage) assignLatents(dev kernels.Backend, e *stages.Element, raw *stages.Array) error {
	model, err := s.On(dev)
	if err != nil {
		return err
	}
	e.RawLatents, e.LatentScale = raw, s.Config.Scale
	if e.Latents, err = model.ForDenoiser(dev, raw); err != nil || !s.half {
		return err
	}
	for i, v := range e.Latents.Data {
		e.Latents.Data[i] = kernels.BF16.Round(v)
	}
	e.RawLatents = nil
	return nil
}
