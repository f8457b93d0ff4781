package vae

import "latentbeam/stages"

// framesLast turns latents (C, T, h, w) into (T, h, w, C), the order that networks use.
func framesLast(z *stages.Array) *stages.Array {
	c, t, h, w := z.Shape[0], z.Shape[1], z.Shape[2], z.Shape[3]
	out := stages.NewArray(t, h, w, c)
	for ch := range c {
		for i, v := range z.Data[ch*t*h*w:][:t*h*w] {
			out.Data[i*c+ch] = v
		}
	}
	return out
}
