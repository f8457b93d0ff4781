package vae

import (
	"context"
	"fmt"
	"slices"

	"latentbeam/internal/fault"
	"latentbeam/internal/media"
	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/nn"
)

// defaultScale is what latents are divided by where their source does not say; Open-Sora 1.x uses it
// with every 2D VAE.
const defaultScale = 0.18215

// options is the stage's map in the YAML.
type options struct {
	// MicroBatchSize is how many frames are decoded at a time; it bounds memory and changes no value.
	MicroBatchSize int `yaml:"micro_batch_size" json:"-"`
}

// Spec returns the stage `decode_vae`: latents become RGB frames, one frame at a time.
func Spec() stages.Spec {
	return stages.Spec{
		Name:    "decode_vae",
		Doc:     "AutoencoderKL: latents to frames; micro_batch_size frames at a time",
		In:      stages.KindLatents,
		Out:     stages.KindFrames,
		Version: 1,
		New:     open,
	}
}

func open(m *stages.Model, o stages.Options) (stages.Stage, error) {
	opts := options{MicroBatchSize: 4}
	if err := o.Into(&opts); err != nil {
		return nil, err
	}
	if opts.MicroBatchSize < 1 {
		return nil, fmt.Errorf("decode_vae: micro_batch_size is %d: give 1 or more frames", opts.MicroBatchSize)
	}
	model, err := nn.OpenComponent(m, "vae", ParseConfig, Load)
	if err != nil {
		return nil, err
	}
	return &stage{model, opts.MicroBatchSize}, nil
}

type stage struct {
	*nn.Component[Config, Model]
	frames int // decoded at a time
}

// Check refuses sizes that are not whole latent positions.
func (s *stage) Check(row *schemas.PromptRow) error {
	if row.NumFrames < 1 {
		return fmt.Errorf("num_frames is %d: give 1 or more", row.NumFrames)
	}
	d := s.Config.Downscale()
	if row.Height%d != 0 || row.Width%d != 0 || row.Height < d || row.Width < d {
		return fmt.Errorf("height %d and width %d must be multiples of %d", row.Height, row.Width, d)
	}
	return nil
}

// Need is that of the frames decoded at a time, and the finished frames of all elements on the host.
func (s *stage) Need(row *schemas.PromptRow, n int) (int64, error) {
	d := s.Config.Downscale()
	decode, err := s.Config.DecodeBytes(min(s.frames, row.NumFrames), row.Height/d, row.Width/d)
	return decode + int64(3*row.Height*row.Width)*int64(row.NumFrames)*int64(n), err
}

// Run decodes the elements one after the other.
func (s *stage) Run(ctx context.Context, dev kernels.Backend, batch []*stages.Element) error {
	model, err := s.On(dev)
	if err != nil {
		return err
	}
	for _, e := range batch {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		d := s.Config.Downscale()
		want := []int{s.Config.LatentChannels, e.Row.NumFrames, e.Row.Height / d, e.Row.Width / d}
		if !slices.Equal(e.Latents.Shape, want) {
			e.Fail("decode_vae", fault.Row(fmt.Errorf("the latents have shape %v, the row's num_frames, height and width "+
				"make it %v (channels, frames, height, width)", e.Latents.Shape, want)))
			continue
		}
		if e.Frames, err = s.decode(dev, model, e); err != nil {
			return err
		}
	}
	return nil
}

// decode turns the latents of one element into frames.
func (s *stage) decode(dev kernels.Backend, model *Model, e *stages.Element) (*media.Clip, error) {
	c, t, h, w := e.Latents.Shape[0], e.Latents.Shape[1], e.Latents.Shape[2], e.Latents.Shape[3]
	scale := e.LatentScale
	if scale == 0 {
		scale = defaultScale
	}
	d := s.Config.Downscale()
	clip := &media.Clip{Width: w * d, Height: h * d, FPS: e.Row.FPS}
	for first := 0; first < t; first += s.frames {
		n := min(s.frames, t-first)
		pixels, err := decodeFrames(dev, model, frameMajor(e.Latents.Data, c, t, h*w, first, n, scale), []int{n, c, h, w})
		if err != nil {
			return nil, err
		}
		size := clip.Width * clip.Height * 3
		for i := range n {
			frame := make([]byte, size)
			RGB24(frame, pixels[i*size:(i+1)*size])
			clip.Frames = append(clip.Frames, frame)
		}
	}
	return clip, nil
}

// decodeFrames runs the decoder on latents of the given shape (N, C, H, W).
func decodeFrames(dev kernels.Backend, model *Model, latents []float32, shape []int) ([]float32, error) {
	defer dev.Scope()()
	z := dev.Alloc(kernels.F32, shape...)
	dev.Upload(z, latents)
	out, err := model.Decode(dev, z) // (N, 8H, 8W, 3)
	if err != nil {
		return nil, err
	}
	pixels := make([]float32, out.Len())
	return pixels, dev.Download(pixels, out)
}

// frameMajor takes n frames from first on out of latents (C, T, size) as (n, C, size), divided by scale.
func frameMajor(latents []float32, c, t, size, first, n int, scale float64) []float32 {
	out := make([]float32, 0, n*c*size)
	for f := first; f < first+n; f++ {
		for ch := range c {
			for _, v := range latents[(ch*t+f)*size : (ch*t+f+1)*size] {
				out = append(out, float32(float64(v)/scale))
			}
		}
	}
	return out
}
