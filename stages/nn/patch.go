package nn

import (
	"latentbeam/kernels"
	"latentbeam/stages/weights"
)

// Patch is the size of a patch in latent frames, rows and columns.
type Patch [3]int

// Grid returns how many patches cover a latent of t frames of h x w, the last ones padded with zeros.
func (p Patch) Grid(t, h, w int) (frames, rows, cols int) {
	return (t + p[0] - 1) / p[0], (h + p[1] - 1) / p[1], (w + p[2] - 1) / p[2]
}

// Size returns the number of latent positions in a patch.
func (p Patch) Size() int { return p[0] * p[1] * p[2] }

// PatchEmbed is the convolution whose kernel and stride are the patch, "x_embedder.proj".
type PatchEmbed struct {
	Proj     Linear // (C, c_in pt ph pw), stored as (C, c_in, pt, ph, pw)
	Patch    Patch
	Channels int // c_in
}

// LoadPatchEmbed reads "proj.weight" (C, c_in, pt, ph, pw) and "proj.bias" (C).
func LoadPatchEmbed(w *weights.Weights, patch Patch, channels, c int) PatchEmbed {
	w = w.Sub("proj")
	weight := w.Tensor("weight", c, channels, patch[0], patch[1], patch[2])
	if !weight.IsZero() {
		weight = weight.Reshape(c, channels*patch.Size())
	}
	return PatchEmbed{Proj: Linear{W: weight, B: w.Tensor("bias", c)}, Patch: patch, Channels: channels}
}

// Forward embeds a latent x (B, c_in, T, H, W) into tokens (B, T', S, C) of type dt, S row-major over rows
// and columns. A latent that the patch does not divide is padded with zeros at the end of each axis.
func (e PatchEmbed) Forward(be kernels.Backend, dt kernels.DType, x kernels.Tensor) kernels.Tensor {
	t, h, w := e.Patch.Grid(x.Dim(2), x.Dim(3), x.Dim(4))
	tokens := be.Alloc(dt, x.Dim(0), t, h*w, e.Proj.W.Dim(0)) // (B, T', S, C)
	defer be.Scope()()
	e.Into(be, tokens, Patchify(be, dt, x, e.Patch))
	return tokens
}

// Into embeds patch vectors (B, T', S, c_in pt ph pw), as Patchify makes them, into tokens (B, T', S, C).
func (e PatchEmbed) Into(be kernels.Backend, tokens, vectors kernels.Tensor) {
	be.Linear(tokens, vectors, e.Proj.W, kernels.Epilogue{Bias: e.Proj.B})
}

// Patchify splits a latent x (B, c, T, H, W) into patch vectors (B, T', S, c pt ph pw) of type dt. It pads x with zeros at the
// end of each axis. The result belongs to the scope open at the call.
func Patchify(be kernels.Backend, dt kernels.DType, x kernels.Tensor, patch Patch) kernels.Tensor {
	return PatchifyInto(be, dt, x, patch, [3]int{x.Dim(2), x.Dim(3), x.Dim(4)})
}

// PatchifyInto is Patchify for a latent that is padded with zeros to a box (T, H, W).
func PatchifyInto(be kernels.Backend, dt kernels.DType, x kernels.Tensor, patch Patch, box [3]int) kernels.Tensor {
	b, c := x.Dim(0), x.Dim(1)
	t, h, w := patch.Grid(box[0], box[1], box[2])
	x = padded(be, x, t*patch[0], h*patch[1], w*patch[2])
	patches := be.Alloc(dt, b, t, h, w, c, patch[0], patch[1], patch[2])
	be.Copy(patches, patchView(x, patch).Permute(0, 2, 4, 6, 1, 3, 5, 7))
	return patches.Reshape(b, t, h*w, c*patch.Size())
}

// Unpatchify writes tokens (B, T', S, pt ph pw c_out), channel fastest, to the latent dst (B, c_out, T, H, W). It skips the
// padding of PatchEmbed.
func Unpatchify(be kernels.Backend, dst, tokens kernels.Tensor, patch Patch) {
	UnpatchifyFrom(be, dst, tokens, patch, [3]int{dst.Dim(2), dst.Dim(3), dst.Dim(4)})
}

// UnpatchifyFrom is Unpatchify for the tokens of a box (T, H, W), which is at least as large as dst. It skips the padding at the
// end of each axis.
func UnpatchifyFrom(be kernels.Backend, dst, tokens kernels.Tensor, patch Patch, box [3]int) {
	defer be.Scope()()
	b, c := dst.Dim(0), dst.Dim(1)
	t, h, w := patch.Grid(box[0], box[1], box[2])
	patches := tokens.Reshape(b, t, h, w, patch[0], patch[1], patch[2], c).
		Permute(0, 7, 1, 4, 2, 5, 3, 6) // (B, c_out, T', pt, H', ph, W', pw)
	if t*patch[0] == dst.Dim(2) && h*patch[1] == dst.Dim(3) && w*patch[2] == dst.Dim(4) {
		be.Copy(patchView(dst, patch), patches)
		return
	}
	full := be.Alloc(dst.DType, b, c, t*patch[0], h*patch[1], w*patch[2])
	be.Copy(patchView(full, patch), patches)
	be.Copy(dst, corner(full, dst.Shape))
}

// patchView splits the axes of x (B, C, T, H, W) into patches: (B, C, T', pt, H', ph, W', pw).
func patchView(x kernels.Tensor, p Patch) kernels.Tensor {
	return x.Reshape(x.Dim(0), x.Dim(1), x.Dim(2)/p[0], p[0], x.Dim(3)/p[1], p[1], x.Dim(4)/p[2], p[2])
}

// padded returns x (B, C, T, H, W) padded at the end with zeros to t, h and w.
func padded(be kernels.Backend, x kernels.Tensor, t, h, w int) kernels.Tensor {
	if x.Dim(2) == t && x.Dim(3) == h && x.Dim(4) == w {
		return x
	}
	full := be.Alloc(x.DType, x.Dim(0), x.Dim(1), t, h, w)
	be.Upload(full, make([]float32, full.Len()))
	be.Copy(corner(full, x.Shape), x)
	return full
}

// corner returns the first shape[i] entries of every axis i of x.
func corner(x kernels.Tensor, shape []int) kernels.Tensor {
	for i, n := range shape {
		x = x.Narrow(i, 0, n)
	}
	return x
}
