package stdit

import (
	"latentbeam/kernels"
	"latentbeam/stages/nn"
	"latentbeam/stages/weights"
)

// stdit1 is STDiT of Open-Sora 1.0: PixArt's block with an additional temporal attention. Positions are those of the training
// size, scaled. It does not have sizes, frame rates or given frames as inputs.
type stdit1 struct{ trunk }

// loadSTDiT1 loads STDiT's blocks. Spatial attention and MLP are modulated by the timestep; temporal attention is
// neither normalised nor modulated, and shares the gate of spatial attention.
func loadSTDiT1(cfg Config, w *weights.Weights) *stdit1 {
	const kind = "blocks.%d"
	m := &stdit1{loadTrunk(cfg, w, false, kind)}
	for i := m.own.Lo; i < m.own.Hi; i++ {
		m.blocks[i].attnTemp = nn.LoadSelfAttention(w.Block(i, kind).Sub("attn_temp"), cfg.HiddenSize, cfg.NumHeads, false)
	}
	return m
}

func (m *stdit1) prepare(be kernels.Backend, p *Prepared, _ Conditions) {
	c := m.HiddenSize
	p.spatial = be.Alloc(m.DType, 1, 1, p.patches.Len, c) // (1, 1, S, C), pos_embed
	be.Upload(p.spatial, nn.SinCos2D(c, p.cols, p.patches, m.SpaceScale))
	p.temporal = be.Alloc(m.DType, 1, p.times.Len, 1, c) // (1, T', 1, C), pos_embed_temporal
	be.Upload(p.temporal, nn.SinCos1D(c, p.times, m.TimeScale))
}

// forward runs the blocks on the stream in place. t (B, C) is the timestep's embedding, which the final layer gets unchanged.
func (m *stdit1) forward(be kernels.Backend, s *stream, t kernels.Tensor, f nn.FrameMask) (kernels.Tensor, error) {
	t6 := f.Rows(be, blockVector(be, m.modulation, t), 6) // (B, 1, 6, C)
	return t, m.eachBlock(be, s, func(i int, b *block) error {
		mods := s.modulations(be, b.table, t6) // (n, 1, 6, C)

		// x += gate_attn * attn(modulate(LN(x)))
		if err := s.addSpatial(be, b.attn, mods); err != nil {
			return err
		}
		for k := range s.parts {
			p := &s.parts[k]

			// x += gate_attn * attn_temp(x + positions)
			b.addPlainTemporal(be, p, mods[k].row(2), i == 0)
			b.addTextAndMLP(be, p, mods[k], i)
		}
		return nil
	})
}

// addPlainTemporal adds gate * attn_temp(x) to the part. With positioned it first adds the frame positions to the input; only
// block 0 does.
func (b *block) addPlainTemporal(be kernels.Backend, p *part, gate kernels.Tensor, positioned bool) {
	defer be.Scope()()
	h := p.x
	if positioned {
		h = be.Alloc(p.x.DType, p.x.Shape...) // (n, T', W, C)
		be.Binary(h, p.x, p.p.temporal.Expand(p.x.Shape...), kernels.Add)
	}
	b.attnTemp.AddTemporal(be, p.x, h, gate, nn.Rope{}, nn.Windows{})
}
