package stdit

import (
	"latentbeam/kernels"
	"latentbeam/stages/nn"
	"latentbeam/stages/sequence"
	"latentbeam/stages/weight"
)

// stdit1 is STDiT of Open-Sora 1.0: PixArt's block with temporal attention put in. Positions are those of the
// training size, scaled; it knows no sizes, frame rates or given frames.
type stdit1 struct {
	Config
	modulation nn.Linear      // t_block.1 (6C, C), behind a SiLU
	blocks     []block1       // blocks.N
	own        sequence.Range // of blocks
	flow       *weight.Flow
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

func loadSTDiT1(cfg Config, w *weight.Weights) *stdit1 {
	c := cfg.HiddenSize
	m := &stdit1{Config: cfg, modulation: nn.LoadLinear(w.Sub("t_block.1"), c, 6*c)}
	m.blocks, m.own = make([]block1, cfg.Depth), w.Blocks(cfg.Depth, "blocks.%d")
	m.flow = w.Flow()
	for i := m.own.Lo; i < m.own.Hi; i++ {
		w := w.Block(i, "blocks.%d")
		m.blocks[i] = block1{
			table:    w.Tensor("scale_shift_table", 6, c),
			attn:     nn.LoadSelfAttention(w.Sub("attn"), c, cfg.NumHeads, false),
			attnTemp: nn.LoadSelfAttention(w.Sub("attn_temp"), c, cfg.NumHeads, false),
			cross:    nn.LoadCrossAttention(w.Sub("cross_attn"), c, cfg.NumHeads),
			mlp:      nn.LoadMLP(w.Sub("mlp"), c, cfg.mlpWidth(), c),
		}
	}
	return m
}

func (m *stdit1) passing() (sequence.Range, *weight.Flow) { return m.own, m.flow }

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

// forward runs the blocks on the stream in place; t (B, C) is the timestep's embedding, which the final layer
// takes as it is.
func (m *stdit1) forward(be kernels.Backend, s *stream, t kernels.Tensor, f nn.FrameMask) (kernels.Tensor, error) {
	t6 := f.Rows(be, blockVector(be, m.modulation, t), 6) // (B, 1, 6, C)
	for i := range m.flow.Each(m.own) {
		s.block(i)
		if err := m.blocks[i].forward(be, s, t6, i); err != nil {
			return t, err
		}
	}
	return t, nil
}

// forward advances the stream by block i.
func (b *block1) forward(be kernels.Backend, s *stream, t6 kernels.Tensor, i int) error {
	defer be.Scope()()
	mods := s.modulations(be, b.table, t6) // (n, 1, 6, C)

	// x += gate_attn * attn(modulate(LN(x)))
	if err := s.addSpatial(be, b.attn, mods); err != nil {
		return err
	}
	for k := range s.parts {
		p := &s.parts[k]

		// x += gate_attn * attn_temp(x + positions)
		b.addTemporal(be, p, mods[k].row(2), i == 0)

		// x += cross_attn(x, text)
		p.p.addText(be, p.x, b.cross, i)

		// x += gate_mlp * mlp(modulate(LN(x)))
		p.addMLP(be, b.mlp, mods[k])
	}
	return nil
}

// addTemporal adds gate * attn_temp(x) to the part; positioned adds the frame positions to its input, which
// block 0 alone does.
func (b *block1) addTemporal(be kernels.Backend, p *part, gate kernels.Tensor, positioned bool) {
	defer be.Scope()()
	h := p.x
	if positioned {
		h = be.Alloc(p.x.DType, p.x.Shape...) // (n, T', W, C)
		be.Binary(h, p.x, p.p.temporal.Expand(p.x.Shape...), kernels.Add)
	}
	b.attnTemp.AddTemporal(be, p.x, h, gate, nn.Rope{}, nn.Windows{})
}
