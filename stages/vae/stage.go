package vae

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
	"latentbeam/stages/cost"
	"latentbeam/stages/nn"
	"latentbeam/stages/weights"
)

// decodeOptions are the options of decode_vae in the YAML.
type decodeOptions struct {
	// MicroBatchSize is the number of frames that are decoded at a time. It limits memory and does not change values.
	MicroBatchSize int    `yaml:"micro_batch_size" json:"-"`
	DType          string `yaml:"dtype" json:"dtype,omitempty"` // of weights and activations: fp32, bf16 or fp16
}

// Spec returns the stage `decode_vae`: it decodes latents to RGB frames. The model's vae/config.json says which autoencoder it
// is.
func Spec() stages.Spec {
	return stages.Spec{
		Name:    "decode_vae",
		Doc:     "autoencoder: latents to frames; micro_batch_size frames at a time, dtype: fp32, bf16 or fp16",
		In:      stages.KindLatents,
		Out:     stages.KindFrames,
		Version: 1,
		Params:  []stages.Param{stages.ParamLoop, stages.ParamConditionFrameLength},
		New:     openDecoder,
	}
}

func openDecoder(m *stages.Model, o stages.Options) (stages.Stage, error) {
	opts := decodeOptions{MicroBatchSize: defaultMicroBatch}
	if err := o.Into(&opts); err != nil {
		return nil, err
	}
	c, err := openComponent(m, "decode_vae", opts.MicroBatchSize, opts.DType)
	if err != nil {
		return nil, err
	}
	return &decodeStage{component: c, micro: opts.MicroBatchSize, rehearsals: &nn.Rehearsals{}}, nil
}

const defaultMicroBatch = 4 // frames, as in the reference's configurations

// component is the autoencoder of a stage.
type component = weights.Component[Config, Model]

// openComponent opens the model's autoencoder for a stage.
func openComponent(m *stages.Model, stage string, micro int, dtype string) (*component, error) {
	if micro < 1 {
		return nil, stages.Errorf("micro_batch_size", "%s: micro_batch_size is %d: give 1 or more frames", stage, micro)
	}
	return Open(m, stage, dtype)
}

type decodeStage struct {
	*component
	micro int // frames decoded at a time

	rehearsals *nn.Rehearsals
}

// Capabilities says what the decoder can do beyond Run.
func (s *decodeStage) Capabilities() stages.Capabilities {
	space := func() stages.LatentSpace { return s.Config.LatentSpace(s.Digest()) }
	return stages.Capabilities{Naming: s.Config.Naming(), LatentShape: s.Config.ShapeOf, LatentSpace: space, TakesRaw: true, Cost: s.Cost, Loading: s.Loading(),
		Spread: &stages.Spread{Width: s.Width, Run: s.RunSet}}
}

// Check returns an error for clips that the autoencoder cannot decode, and for videos whose clips do not consist of whole
// groups of frames.
func (s *decodeStage) Check(row *schemas.PromptRow) error {
	_, err := s.Config.ShapeOf(row)
	if err == nil && row.Loop > 1 {
		_, err = s.Config.FramesOf(row.ConditionFrameLength, row.NumFrames)
	}
	return err
}

// Need returns the memory for the frames that are decoded at a time, and for the finished frames of all elements on the host.
func (s *decodeStage) Need(row *schemas.PromptRow, n int) (int64, error) {
	decode, err := s.Config.DecodeBytes(row.NumFrames, row.Height, row.Width, s.micro)
	frames := int64(row.NumFrames) * int64(max(1, row.Loop))
	return decode + int64(3*row.Height*row.Width)*frames*int64(n), err
}

// Cost returns the cost of all frames of all clips. Devices share them by groups or rows.
func (s *decodeStage) Cost(row *schemas.PromptRow) (cost.Estimate, error) {
	clip, err := s.Config.DecodeWork(row.NumFrames, row.Height, row.Width, s.micro, s.rehearsals)
	work := clip.Times(float64(max(1, row.Loop)))
	all, _ := s.Bytes(s.Config.DType)
	return cost.Estimate{Weights: all, Work: work.Work(), Kernels: work, Pieces: s.pieces(row)}, err
}

// Run decodes the elements one after another.
func (s *decodeStage) Run(ctx context.Context, dev kernels.Backend, batch []*stages.Element) error {
	model, err := s.On(dev)
	if err != nil {
		return err
	}
	for _, e := range batch {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if err := s.fromRaw(dev, e); err != nil {
			return err
		}
		if err := s.checkLatents(e); err != nil {
			e.Fail("decode_vae", fault.Row(err))
			continue
		}
		if e.Frames, err = s.decode(dev, model, e); err != nil {
			return err
		}
	}
	return nil
}

// fromRaw converts the latents of an element that has only raw latents, from a table.
func (s *decodeStage) fromRaw(dev kernels.Backend, e *stages.Element) error {
	if e.Latents != nil || e.RawLatents == nil {
		return nil
	}
	if shape, err := s.Config.ShapeOf(&e.Row); err != nil || len(e.RawLatents.Shape) != 4 || e.RawLatents.Shape[0] != shape[0] {
		e.Latents = e.RawLatents // checkLatents reports what is wrong
		return nil
	}
	model, err := s.On(dev)
	if err != nil {
		return err
	}
	e.LatentScale = s.Config.Scale
	e.Latents, err = model.ForDenoiser(dev, e.RawLatents)
	return err
}

// checkLatents returns an error if the latents of an element do not fit its row.
func (s *decodeStage) checkLatents(e *stages.Element) error {
	want, err := s.Config.ShapeOf(&e.Row)
	if err != nil {
		return err
	}
	want[1] *= max(1, e.Row.Loop)
	if !slices.Equal(e.Latents.Shape, want) {
		return fmt.Errorf("the latents have shape %v, the row's num_frames, height and width make it %v "+
			"(channels, frames, height, width)", e.Latents.Shape, want)
	}
	return nil
}

// segment is a range of latents that is decoded independently.
type segment struct {
	z       *stages.Array
	frames  int
	overlap int // number of its frames that the video already has
}

// segments returns the segments of an element's video. The clips of a video are adjacent in the latents; the frames with which
// a clip continues the clip before appear in the video once.
func (s *decodeStage) segments(e *stages.Element) ([]segment, error) {
	clips := max(1, e.Row.Loop)
	if s.Config.Group.Joined && clips > 1 {
		z := joined(e.Latents, clips, e.Row.ConditionFrameLength)
		s.unscale(z, e)
		frames, err := s.Config.FramesOf(z.Shape[1], e.Row.NumFrames)
		return []segment{{z, frames, 0}}, err
	}
	var out []segment
	for clip := range clips {
		again := 0
		if clip > 0 {
			var err error
			if again, err = s.Config.FramesOf(e.Row.ConditionFrameLength, e.Row.NumFrames); err != nil {
				return nil, err
			}
		}
		t := e.Latents.Shape[1] / clips
		z := framesOf(e.Latents, clip*t, t)
		s.unscale(z, e)
		out = append(out, segment{z, e.Row.NumFrames, again})
	}
	return out, nil
}

// decode decodes the latents of one element to frames.
func (s *decodeStage) decode(dev kernels.Backend, model *Model, e *stages.Element) (*schemas.Clip, error) {
	video := s.clip(e)
	segments, err := s.segments(e)
	if err != nil {
		return nil, err
	}
	made := frames{config: s.Config}
	for _, seg := range segments {
		err := model.Decode(dev, seg.z, seg.frames, s.micro, func(pixels []float32) {
			if seg.overlap--; seg.overlap < 0 {
				made.add(pixels)
			}
		})
		if err = cmp.Or(err, fault.Row(made.unreal)); err != nil {
			return nil, err
		}
	}
	video.Frames = made.all
	return video, nil
}

// frames are decoded frames as bytes.
type frames struct {
	config Config
	all    [][]byte
	unreal error // error of the first frame that is not finite
}

func (f *frames) add(pixels []float32) {
	frame := make([]byte, len(pixels))
	f.unreal = cmp.Or(f.unreal, f.config.RGB24(frame, pixels))
	f.all = append(f.all, frame)
}

// joined returns the latents of one long video, as Open-Sora 1.3 decodes its clips: all of the first clip, and of each later
// clip the part after its first length frames, which are the end of the clip before.
func joined(z *stages.Array, clips, length int) *stages.Array {
	t := z.Shape[1] / clips
	var frames []int
	for i := range z.Shape[1] {
		if i < t || i%t >= length {
			frames = append(frames, i)
		}
	}
	return pick(z, frames)
}

// clip returns the element's video without frames.
func (s *decodeStage) clip(e *stages.Element) *schemas.Clip {
	d := s.Config.Downscale()
	return &schemas.Clip{Width: e.Latents.Shape[3] * d, Height: e.Latents.Shape[2] * d, FPS: e.Row.FPS}
}

// unscale divides the element's latents z by the scale, in place.
func (s *decodeStage) unscale(z *stages.Array, e *stages.Element) {
	scale := e.LatentScale
	if scale == 0 {
		scale = s.Config.Scale
	}
	for i, v := range z.Data {
		z.Data[i] = float32(float64(v) / scale)
	}
}
