package stdit

import (
	"latentbeam/kernels"
	"latentbeam/stages/nn"
)

// block is one STDiT block, blocks.N. Spatial attention and MLP are modulated by the timestep; temporal
// attention is neither normalised nor modulated, and shares the gate of spatial attention.
type block struct {
	table    kernels.Tensor    // scale_shift_table (6, C): shift, scale, gate of attention, then of the MLP
	attn     nn.SelfAttention  // attn, along the patches of a frame
	attnTemp nn.SelfAttention  // attn_temp, along the frames of a patch
	cross    nn.CrossAttention // cross_attn
	mlp      nn.MLP            // mlp
}

func loadBlock(w *nn.Weights, cfg Config) block {
	c := cfg.HiddenSize
	return block{
		table:    w.Tensor("scale_shift_table", 6, c),
		attn:     nn.LoadSelfAttention(w.Sub("attn"), c, cfg.NumHeads),
		attnTemp: nn.LoadSelfAttention(w.Sub("attn_temp"), c, cfg.NumHeads),
		cross:    nn.LoadCrossAttention(w.Sub("cross_attn"), c, cfg.NumHeads),
		mlp:      nn.LoadMLP(w.Sub("mlp"), c, int(float64(c)*cfg.MLPRatio), c),
	}
}

// forward advances the residual stream x (B, T, S, C) in place. t6 (B, 6, C) is t_block's output, kv
// (B, max L, 2, H, D) the text with its lens. temporal (1, T, 1, C) holds the frame positions: block 0 adds
// them to the input of temporal attention alone; the other blocks get none.
func (b *block) forward(be kernels.Backend, x, t6, kv kernels.Tensor, lens []int, temporal kernels.Tensor) {
	defer be.Scope()()
	n, t, s, c := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
	mod := be.Alloc(kernels.F32, n, 6, c) // (B, 6, C)
	be.Binary(mod, b.table.Expand(n, 6, c), t6, kernels.Add)
	row := func(i int) kernels.Tensor { return nn.ModulationRow(mod, i, t, s) } // (B, T, S, C)
	shiftAttn, scaleAttn, gateAttn := row(0), row(1), row(2)
	shiftMLP, scaleMLP, gateMLP := row(3), row(4), row(5)

	// x += gate_attn * attn(modulate(LN(x)))
	h := nn.Modulate(be, x, shiftAttn, scaleAttn) // (B, T, S, C)
	b.attn.AddTo(be, x, h, nn.Space, gateAttn)

	// x += gate_attn * attn_temp(x + positions)
	h = x
	if !temporal.IsZero() {
		h = be.Alloc(kernels.F32, x.Shape...) // (B, T, S, C)
		be.Binary(h, x, temporal.Expand(x.Shape...), kernels.Add)
	}
	b.attnTemp.AddTo(be, x, h, nn.Time, gateAttn)

	// x += cross_attn(x, text)
	b.cross.AddTo(be, x.Reshape(n, t*s, c), kv, lens)

	// x += gate_mlp * mlp(modulate(LN(x)))
	h = nn.Modulate(be, x, shiftMLP, scaleMLP) // (B, T, S, C)
	b.mlp.AddTo(be, x, h, gateMLP)
}
