package vae

import "fmt"

// RGB24 converts decoded pixels to bytes: clamp to [-1, 1], (x+1)/2*255+0.5, cut off. dst and src are of
// the same length and layout. A value that is not a number becomes 0 and is the error: the guard, which
// sees bytes, could not find it.
//
// The reference computes this in the model's dtype; in bf16 that loses every odd value above 128.
func RGB24(dst []byte, src []float32) error {
	return rgb24(dst, src, 0.5)
}

// bytes converts decoded pixels to bytes as the reference of the autoencoder does. Those of Wan and
// Open-Sora-Plan cut off without rounding.
func (c Config) bytes(dst []byte, src []float32) error {
	switch c.arch.(type) {
	case *WanConfig, *WFConfig, *CausalVAEConfig:
		return rgb24(dst, src, 0)
	}
	return RGB24(dst, src)
}

// rgb24 is RGB24 with another addend than 0.5.
func rgb24(dst []byte, src []float32, addend float32) error {
	bad := -1
	for i, x := range src {
		if !(x > -1) {
			if x != x {
				bad = i
			}
			x = -1
		}
		dst[i] = byte(float32((min(x, 1)+1)/2*255) + addend)
	}
	if bad >= 0 {
		return fmt.Errorf("value %d of a decoded frame is not a number: the latents are too large for the autoencoder", bad)
	}
	return nil
}
