package vae

import (
	"fmt"

	"latentbeam/kernels"
	"latentbeam/stages"
	"latentbeam/stages/nn"
	"latentbeam/stages/weights"
)

// DecodeBytes returns the device memory that Decode needs for such a clip, without the weights.
func (c Config) DecodeBytes(frames, height, width, micro int) (int64, error) {
	m, _, err := c.outline(frames, height, width)
	if err != nil {
		return 0, err
	}
	return nn.PeakBytes(func(be kernels.Backend) error {
		m.network.decodeGroup(be, frames, height, width, max(1, micro))
		return nil
	})
}

// EncodeBytes returns the same for Encode.
func (c Config) EncodeBytes(frames, height, width, micro int) (int64, error) {
	m, _, err := c.outline(frames, height, width)
	if err != nil {
		return 0, err
	}
	return nn.PeakBytes(func(be kernels.Backend) error {
		m.network.encodeGroup(be, frames, height, width, max(1, micro))
		return nil
	})
}

// DecodeWork returns the FLOP of Decode for such a clip, and its calls.
func (c Config) DecodeWork(frames, height, width, micro int) (flop float64, calls int64, err error) {
	m, shape, err := c.outline(frames, height, width)
	if err != nil {
		return 0, 0, err
	}
	return nn.Work(func(be kernels.Backend) error {
		return m.Decode(be, stages.NewArray(shape...), frames, micro, func([]float32) {})
	})
}

// EncodeWork returns the same for Encode and ForDenoiser.
func (c Config) EncodeWork(frames, height, width, micro int) (flop float64, calls int64, err error) {
	m, _, err := c.outline(frames, height, width)
	if err != nil {
		return 0, 0, err
	}
	none := func([]float32, int, int) error { return nil }
	return nn.Work(func(be kernels.Backend) error {
		raw, err := m.Encode(be, Video{frames, height, width, none}, micro, nil)
		if err != nil {
			return err
		}
		return m.network.normalize(be, raw)
	})
}

// outline is the model without values, and the shape of the latents of such a clip.
func (c Config) outline(frames, height, width int) (*Model, []int, error) {
	shape, err := c.LatentShape(frames, height, width)
	if err != nil {
		return nil, nil, fmt.Errorf("vae: %w", err)
	}
	m, err := Load(c, weights.ShapesOnly())
	return m, shape, err
}
