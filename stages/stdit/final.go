package stdit

import (
	"latentbeam/kernels"
	"latentbeam/stages/nn"
)

// finalLayer is modulated by the timestep embedding itself, not by t_block's output, and projects to pixels.
type finalLayer struct {
	table  kernels.Tensor // scale_shift_table (2, C): shift, scale
	linear nn.Linear      // linear (pt ph pw c_out, C)
}

// forward computes the output (n, T', W, pt ph pw c_out) of a part. t (B, C) has the timestep embeddings of its rank's rows,
// followed by the embeddings of timestep 0 if frames are given. The reference modulates a given frame a second time, on top of
// the modulation that all frames get. This changes the result only if such a frame is used, in the step of IDDPM at which its
// denoising starts.
func (l finalLayer) forward(be kernels.Backend, p *part, t kernels.Tensor, f nn.FrameMask) kernels.Tensor {
	k, c := t.Dim(0), t.Dim(1)
	mod := be.Alloc(t.DType, k, 1, 2, c) // (B or 2B, 1, 2, C)
	be.Binary(mod, l.table.Expand(mod.Shape...), t.Reshape(k, 1, 1, c).Expand(mod.Shape...), kernels.Add)
	row := func(first, n, i, frames int) kernels.Tensor { // (n, frames, W, C)
		return nn.ModulationRow(mod.Narrow(0, first, n), i, frames, p.x.Dim(2))
	}
	first, n := p.rows.Start, p.rows.Len
	h := nn.Modulate(be, p.x, row(first, n, 0, f.T), row(first, n, 1, f.T)) // (n, T', W, C)
	f.EachGiven(func(b, t int) {
		if b < first || b >= first+n {
			return
		}
		frame := h.Narrow(0, b-first, 1).Narrow(1, t, 1) // (1, 1, W, C)
		again := nn.Modulate(be, frame, row(f.B+b, 1, 0, 1), row(f.B+b, 1, 1, 1))
		be.Copy(frame, again)
	})
	return l.linear.Forward(be, h, kernels.Identity)
}
