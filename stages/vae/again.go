package vae

import (
	"context"
	"fmt"

	"latentbeam/internal/rng"
	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/weight"
)

// againNoise marks the noise of latents that are encoded anew, for each clip steps of its own.
const againNoise = 1 << 29

// again takes the end of a clip through its frames and back.
type again struct {
	*weight.Component[Config, Model]
}

// OpenReencoder opens the model's autoencoder as what clips of a longer video go on through.
func OpenReencoder(m *stages.Model) (stages.Reencoder, error) {
	c, err := openComponent(m, "denoise", defaultMicroBatch, "")
	if err != nil {
		return nil, err
	}
	return again{c}, nil
}

// groupOf returns how many latent frames are made of how many frames together: 5 of 17 in Open-Sora 1.2, one of
// one where frames are encoded by themselves.
func (c Config) groupOf() (latents, frames int, err error) {
	for _, g := range [][2]int{{5, 17}, {1, 1}} {
		one, err := c.LatentShape(g[1], MaxSide, MaxSide)
		if err != nil {
			return 0, 0, err
		}
		two, err := c.LatentShape(2*g[1], MaxSide, MaxSide)
		if err == nil && one[1] == g[0] && two[1] == 2*g[0] {
			return g[0], g[1], nil
		}
	}
	return 0, 0, fmt.Errorf("frames are not encoded in groups, so no clip can go on from the last of them")
}

// framesOf returns how many frames the last length latent frames of a clip of frames are made of.
func (c Config) framesOf(length, frames int) (int, error) {
	if a, ok := c.arch.(*CausalConfig); ok {
		return a.FramesOf(length)
	}
	latents, group, err := c.groupOf()
	if err != nil {
		return 0, err
	}
	if length%latents != 0 {
		return 0, fmt.Errorf("condition_frame_length is %d: give a multiple of %d, the latent frames of a group",
			length, latents)
	}
	if frames%group != 0 {
		return 0, fmt.Errorf("num_frames is %d: clips that go on have a multiple of %d", frames, group)
	}
	return length / latents * group, nil
}

// Check refuses clips that do not end with whole groups.
func (a again) Check(row *schemas.PromptRow, length int) error {
	_, err := a.Config.framesOf(length, row.NumFrames)
	return err
}

// Need is that of a decoder or of an encoder, whichever takes more.
func (a again) Need(row *schemas.PromptRow) (int64, error) {
	decode, err := a.Config.DecodeBytes(row.NumFrames, row.Height, row.Width, defaultMicroBatch)
	if err != nil {
		return 0, err
	}
	encode, err := a.Config.EncodeBytes(row.NumFrames, row.Height, row.Width, defaultMicroBatch)
	return max(decode, encode), err
}

// Reencode decodes a clip and encodes its last frames. The pixels in between are not rounded to bytes, as in the
// reference.
func (a again) Reencode(ctx context.Context, dev kernels.Backend, row *schemas.PromptRow, latents *stages.Array,
	clip, length int) (*stages.Array, error) {
	model, err := a.On(dev)
	if err != nil {
		return nil, err
	}
	n, err := a.Config.framesOf(length, row.NumFrames)
	if err != nil {
		return nil, err
	}
	z := stages.NewArray(latents.Shape...)
	scale := a.Config.Scale()
	for i, v := range latents.Data {
		z.Data[i] = float32(float64(v) / scale)
	}
	var last [][]float32 // (H, W, 3) of the last n frames
	err = model.Decode(dev, z, row.NumFrames, defaultMicroBatch, func(pixels []float32) {
		if last = append(last, append([]float32(nil), pixels...)); len(last) > n {
			last = last[1:]
		}
	})
	if err != nil || ctx.Err() != nil {
		return nil, firstError(err, context.Cause(ctx))
	}
	d := a.Config.Downscale()
	draw := func(dst []float32, step uint32, offset uint64) {
		rng.Normals(dst, uint64(*row.Seed), uint32(row.SampleIndex), step|againNoise|rng.Clip(clip), offset)
	}
	out, err := model.Encode(dev, n, z.Shape[2]*d, z.Shape[3]*d, defaultMicroBatch, draw,
		func(dst []float32, first, count int) error {
			size := len(dst) / count
			for i := range count {
				copy(dst[i*size:], last[first+i])
			}
			return nil
		})
	if err != nil {
		return nil, err
	}
	for i, v := range out.Data {
		out.Data[i] = float32(float64(v) * scale)
	}
	return out, nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
