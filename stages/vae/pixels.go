package vae

// RGB24 converts decoded pixels to bytes: clamp to [-1, 1], (x+1)/2*255+0.5, cut off. dst and src are of
// the same length and layout. A value that is not a number becomes 0; finding it is the guard's work.
//
// The reference computes this in the model's dtype; in bf16 that loses every odd value above 128.
func RGB24(dst []byte, src []float32) {
	for i, x := range src {
		if !(x > -1) {
			x = -1
		}
		dst[i] = byte(float32((min(x, 1)+1)/2*255) + 0.5)
	}
}
