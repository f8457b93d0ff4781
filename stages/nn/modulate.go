package nn

import "latentbeam/kernels"

// LayerNormEps is the epsilon of every LayerNorm of the DiT family.
const LayerNormEps = 1e-6

// Modulate returns LN(x) (1 + scale) + shift, the adaptive LayerNorm of DiT (section 3.2 of
// arXiv:2212.09748): x (B, T, S, C), shift and scale expanded to its shape.
func Modulate(be kernels.Backend, x, shift, scale kernels.Tensor) kernels.Tensor {
	y := be.Alloc(x.DType, x.Shape...) // (B, T, S, C)
	be.Norm(y, x, kernels.NormSpec{Kind: kernels.LayerNorm, Eps: LayerNormEps, Shift: shift, Scale: scale})
	return y
}

// ModulationRow returns row i of the modulation rows m (B, T or 1, R, C) of a video's frames, expanded over all
// its tokens: (B, T, S, C).
func ModulationRow(m kernels.Tensor, i, t, s int) kernels.Tensor {
	b, frames, c := m.Dim(0), m.Dim(1), m.Dim(3)
	return m.Narrow(2, i, 1).Reshape(b, frames, 1, c).Expand(b, t, s, c)
}

// ModulationRows returns table (R, C) + m: the modulation rows of a block, for m (B, T or 1, R, C).
func ModulationRows(be kernels.Backend, table, m kernels.Tensor) kernels.Tensor {
	rows := be.Alloc(m.DType, m.Shape...) // (B, T or 1, R, C)
	be.Binary(rows, table.Expand(m.Shape...), m, kernels.Add)
	return rows
}
