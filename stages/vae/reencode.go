package vae

import (
	"cmp"
	"context"
	"slices"

	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/rng"
)

// reencodeNoise marks the noise for re-encoded latents. Each clip has its own steps.
const reencodeNoise = 1 << 29

// reencoder decodes the end of a clip to frames and encodes them again.
type reencoder struct {
	*component
}

// OpenReencoder opens the model's autoencoder as the Reencoder for clips of a longer video.
func OpenReencoder(m *stages.Model) (stages.Reencoder, error) {
	c, err := Open(m, "denoise", "")
	if err != nil {
		return nil, err
	}
	return reencoder{c}, nil
}

// Check returns an error for clips that do not end with whole groups.
func (a reencoder) Check(row *schemas.PromptRow, length int) error {
	_, err := a.Config.FramesOf(length, row.NumFrames)
	return err
}

// Need returns the memory of the decoder or the encoder, whichever is larger.
func (a reencoder) Need(row *schemas.PromptRow) (int64, error) {
	decode, err := a.Config.DecodeBytes(row.NumFrames, row.Height, row.Width, defaultMicroBatch)
	if err != nil {
		return 0, err
	}
	encode, err := a.Config.EncodeBytes(row.NumFrames, row.Height, row.Width, defaultMicroBatch)
	return max(decode, encode), err
}

// Reencode decodes a clip and encodes its last frames. Pixels are not rounded to bytes in between, as in the reference.
func (a reencoder) Reencode(ctx context.Context, dev kernels.Backend, row *schemas.PromptRow, latents *stages.Array,
	clip, length int) (*stages.Array, error) {
	model, err := a.On(dev)
	if err != nil {
		return nil, err
	}
	n, err := a.Config.FramesOf(length, row.NumFrames)
	if err != nil {
		return nil, err
	}
	z := stages.NewArray(latents.Shape...)
	for i, v := range latents.Data {
		z.Data[i] = float32(float64(v) / a.Config.Scale)
	}
	var last [][]float32 // (H, W, 3) of each of the last n frames
	err = model.Decode(dev, z, row.NumFrames, defaultMicroBatch, func(pixels []float32) {
		if last = append(last, slices.Clone(pixels)); len(last) > n {
			last = last[1:]
		}
	})
	if err != nil || ctx.Err() != nil {
		return nil, cmp.Or(err, context.Cause(ctx))
	}
	d := a.Config.Downscale()
	end := Video{Frames: n, Height: z.Shape[2] * d, Width: z.Shape[3] * d,
		Pixels: frameByFrame(func(dst []float32, i int) error {
			copy(dst, last[i])
			return nil
		})}
	raw, err := model.Encode(dev, end, defaultMicroBatch, noise(row, reencodeNoise|rng.Clip(clip)))
	if err != nil {
		return nil, err
	}
	return model.ForDenoiser(dev, raw)
}
