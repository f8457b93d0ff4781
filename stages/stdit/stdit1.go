package stdit

import (
	"latentbeam/kernels"
	"latentbeam/stages/nn"
)

// stdit1 is STDiT of Open-Sora 1.0: PixArt's block with temporal attention put in. Positions are those of the
// training size, scaled; it knows no sizes, frame rates or given frames.
type stdit1 struct {
	Config
	modulation nn.Linear // t_block.1 (6C, C), behind a SiLU
	blocks     []block1  // blocks.N
}

// block1 is one STDiT block. Spatial attention and MLP are modulated by the timestep; temporal attention is
// neither normalised nor modulated, and shares the gate of spatial attention.
type block1 struct {
	table    kernels.Tensor    // scale_shift_table (6, C): shift, scale, gate of attention, then of the MLP
	attn     nn.SelfAttention  // attn, along the patches of a frame
	attnTemp nn.SelfAttention  // attn_temp, along the frames of a patch
	cross    nn.CrossAttention // cross_attn
	mlp      nn.MLP            // mlp
}

func loadSTDiT1(cfg Config, w *nn.Weights) *stdit1 {
	c := cfg.HiddenSize
	m := &stdit1{Config: cfg, modulation: nn.LoadLinear(w.Sub("t_block.1"), c, 6*c)}
	for i := range cfg.Depth {
		w := w.Subf("blocks.%d", i)
		m.blocks = append(m.blocks, block1{
			table:    w.Tensor("scale_shift_table", 6, c),
			attn:     nn.LoadSelfAttention(w.Sub("attn"), c, cfg.NumHeads, false),
			attnTemp: nn.LoadSelfAttention(w.Sub("attn_temp"), c, cfg.NumHeads, false),
			cross:    nn.LoadCrossAttention(w.Sub("cross_attn"), c, cfg.NumHeads),
			mlp:      nn.LoadMLP(w.Sub("mlp"), c, cfg.mlpWidth(), c),
		})
	}
	return m
}

func (m *stdit1) crosses() (out []nn.CrossAttention) {
	for i := range m.blocks {
		out = append(out, m.blocks[i].cross)
	}
	return out
}

func (m *stdit1) prepare(be kernels.Backend, p *Prepared, _ Conditions) {
	c := m.HiddenSize
	p.spatial = be.Alloc(m.DType, 1, 1, p.patches.Len, c) // (1, 1, S, C), pos_embed
	be.Upload(p.spatial, nn.SinCos2D(c, p.cols, p.patches, m.SpaceScale))
	p.temporal = be.Alloc(m.DType, 1, p.times.Len, 1, c) // (1, T', 1, C), pos_embed_temporal
	be.Upload(p.temporal, nn.SinCos1D(c, p.times, m.TimeScale))
}

// forward runs the blocks on tokens x (B, T', S, C) in place; t (B, C) is the timestep's embedding, which the
// final layer takes as it is.
func (m *stdit1) forward(be kernels.Backend, x, t kernels.Tensor, f frames, p *Prepared) kernels.Tensor {
	t6 := f.rows(be, blockVector(be, m.modulation, t), 6) // (B, 1, 6, C)
	for i := range m.blocks {
		temporal := kernels.Tensor{}
		if i == 0 {
			temporal = p.temporal
		}
		m.blocks[i].forward(be, x, t6, temporal, p, i)
	}
	return t
}

// forward advances the residual stream x (B, T', S, C) in place. temporal (1, T', 1, C) holds the frame
// positions: block 0 adds them to the input of temporal attention alone; the other blocks get none.
func (b *block1) forward(be kernels.Backend, x, t6, temporal kernels.Tensor, p *Prepared, i int) {
	defer be.Scope()()
	mod := nn.ModulationRows(be, b.table, t6)                                                 // (B, 1, 6, C)
	row := func(i int) kernels.Tensor { return nn.ModulationRow(mod, i, x.Dim(1), x.Dim(2)) } // (B, T', S, C)
	shiftAttn, scaleAttn, gateAttn := row(0), row(1), row(2)
	shiftMLP, scaleMLP, gateMLP := row(3), row(4), row(5)

	// x += gate_attn * attn(modulate(LN(x)))
	h := nn.Modulate(be, x, shiftAttn, scaleAttn) // (B, T', S, C)
	b.attn.AddSpatial(be, x, h, gateAttn, nn.Rope{})

	// x += gate_attn * attn_temp(x + positions)
	h = x
	if !temporal.IsZero() {
		h = be.Alloc(x.DType, x.Shape...) // (B, T', S, C)
		be.Binary(h, x, temporal.Expand(x.Shape...), kernels.Add)
	}
	b.attnTemp.AddTemporal(be, x, h, gateAttn, nn.Rope{}, nn.Windows{})

	// x += cross_attn(x, text)
	p.addText(be, x, b.cross, i)

	// x += gate_mlp * mlp(modulate(LN(x)))
	h = nn.Modulate(be, x, shiftMLP, scaleMLP) // (B, T', S, C)
	b.mlp.AddTo(be, x, h, gateMLP)
}
