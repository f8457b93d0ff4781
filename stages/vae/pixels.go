package vae

import "fmt"

// RGB24 converts decoded pixels to bytes as the autoencoder's reference does: clamp to [-1, 1], (x+1)/2*255+0.5, truncate. The
// references of Wan and Open-Sora-Plan do not add 0.5. dst and src have the same length and layout. A NaN becomes 0 and is
// returned as an error, because the guard sees only bytes and could not find it.
//
// The reference computes this in the model's dtype; in bf16 that loses every odd value above 128.
func (c Config) RGB24(dst []byte, src []float32) error {
	addend := float32(0.5)
	if c.truncates {
		addend = 0
	}
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
