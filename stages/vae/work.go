package vae

import (
	"fmt"

	"latentbeam/kernels"
	"latentbeam/stages"
	"latentbeam/stages/cost"
	"latentbeam/stages/nn"
	"latentbeam/stages/weights"
)

// DecodeBytes returns the device memory that Decode needs for a clip of this size, without the weights.
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

// EncodeBytes returns the device memory that Encode needs.
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

// DecodeWork returns the kernels of Decode for a clip of this size. known has rehearsals of it.
func (c Config) DecodeWork(frames, height, width, micro int, known *nn.Rehearsals) (cost.Kernels, error) {
	m, shape, err := c.outline(frames, height, width)
	if err != nil {
		return cost.Kernels{}, err
	}
	all, err := known.Of([4]int{frames, height, width, micro}, func(be kernels.Backend) error {
		return m.Decode(be, stages.NewArray(shape...), frames, micro, func([]float32) {})
	})
	return all.Kernels, err
}

// EncodeWork returns the kernels of Encode and ForDenoiser. known has rehearsals of both.
func (c Config) EncodeWork(frames, height, width, micro int, known *nn.Rehearsals) (cost.Kernels, error) {
	m, _, err := c.outline(frames, height, width)
	if err != nil {
		return cost.Kernels{}, err
	}
	none := func([]float32, int, int) error { return nil }
	all, err := known.Of([4]int{frames, height, width, micro}, func(be kernels.Backend) error {
		raw, err := m.Encode(be, Video{frames, height, width, none}, micro, nil)
		if err != nil {
			return err
		}
		return m.network.normalize(be, raw)
	})
	return all.Kernels, err
}

// outline returns the model without values, and the latent shape of a clip of this size.
func (c Config) outline(frames, height, width int) (*Model, []int, error) {
	shape, err := c.LatentShape(frames, height, width)
	if err != nil {
		return nil, nil, fmt.Errorf("vae: %w", err)
	}
	m, err := Load(c, weights.ShapesOnly())
	return m, shape, err
}
