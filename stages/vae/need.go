package vae

import (
	"latentbeam/kernels"
	"latentbeam/stages/nn"
)

// DecodeBytes returns the device memory that Decode needs for n latents of h x w, with input and output
// but without the weights.
func (c Config) DecodeBytes(n, h, w int) (int64, error) {
	m, err := Load(c, nn.ShapesOnly())
	if err != nil {
		return 0, err
	}
	return nn.PeakBytes(func(be kernels.Backend) error {
		_, err := m.Decode(be, be.Alloc(kernels.F32, n, c.LatentChannels, h, w))
		return err
	})
}

// EncodeBytes returns the same for Encode of n images of height x width pixels.
func (c Config) EncodeBytes(n, height, width int) (int64, error) {
	m, err := Load(c, nn.ShapesOnly())
	if err != nil {
		return 0, err
	}
	return nn.PeakBytes(func(be kernels.Backend) error {
		_, err := m.Encode(be, be.Alloc(kernels.F32, n, height, width, c.InChannels))
		return err
	})
}
