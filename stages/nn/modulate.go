package nn

import "latentbeam/kernels"

// LayerNormEps is the epsilon of every LayerNorm of the DiT family.
const LayerNormEps = 1e-6

// Modulate returns LN(x) (1 + scale) + shift, the adaptive LayerNorm of DiT (section 3.2 of
// arXiv:2212.09748): x (B, T, S, C), shift and scale expanded to its shape.
func Modulate(be kernels.Backend, x, shift, scale kernels.Tensor) kernels.Tensor {
	y := be.Alloc(kernels.F32, x.Shape...) // (B, T, S, C)
	be.Norm(y, x, kernels.NormSpec{Kind: kernels.LayerNorm, Eps: LayerNormEps, Shift: shift, Scale: scale})
	return y
}

// ModulationRow returns row i of a modulation table m (B, R, C), expanded over all tokens of a
// video: (B, T, S, C).
func ModulationRow(m kernels.Tensor, i, t, s int) kernels.Tensor {
	b, c := m.Dim(0), m.Dim(2)
	return m.Narrow(1, i, 1).Reshape(b, 1, 1, c).Expand(b, t, s, c)
}
