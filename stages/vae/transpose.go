package vae

import "latentbeam/stages"

// framesLast turns latents (C, T, h, w) into (T, h, w, C), the order in which networks take them.
func framesLast(z *stages.Array) *stages.Array {
	c, t, h, w := z.Shape[0], z.Shape[1], z.Shape[2], z.Shape[3]
	return transpose(z, []int{t, h, w, c})
}

// channelsFirst turns latents (T, h, w, C) into (C, T, h, w), the order of the seams.
func channelsFirst(z *stages.Array) *stages.Array {
	t, h, w, c := z.Shape[0], z.Shape[1], z.Shape[2], z.Shape[3]
	flat := transpose(&stages.Array{Shape: []int{t * h * w, c}, Data: z.Data}, []int{c, t * h * w})
	return &stages.Array{Shape: []int{c, t, h, w}, Data: flat.Data}
}

// transpose swaps the first axis of a with all the others together.
func transpose(a *stages.Array, shape []int) *stages.Array {
	rows := a.Shape[0]
	out := &stages.Array{Shape: shape, Data: make([]float32, len(a.Data))}
	if rows == 0 {
		return out
	}
	cols := len(a.Data) / rows
	for i := range rows {
		for j, v := range a.Data[i*cols : (i+1)*cols] {
			out.Data[j*rows+i] = v
		}
	}
	return out
}
