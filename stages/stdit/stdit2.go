package stdit

import (
	"latentbeam/kernels"
	"latentbeam/stages/nn"
	"latentbeam/stages/sequence"
	"latentbeam/stages/weight"
)

// stdit2 is STDiT2 of Open-Sora 1.1: STDiT whose temporal attention has a norm and a modulation of its own and
// rotary positions, and which is told the size, the aspect ratio, the number of frames and the frame rate.
type stdit2 struct {
	Config
	size        nn.SizeEmbedder // csize_embedder, of height and width, C/3 each
	aspect      nn.SizeEmbedder // ar_embedder, of height/width, C/3
	length      nn.SizeEmbedder // fl_embedder, of the number of frames
	fps         nn.SizeEmbedder // fps_embedder
	modulation  nn.Linear       // t_block.1 (6C, C), behind a SiLU
	modTemporal nn.Linear       // t_block_temp.1 (3C, C), behind a SiLU
	freqs       []float32       // rope.freqs
	blocks      []block2        // blocks.N
	own         sequence.Range  // of blocks
	flow        *weight.Flow
}

// block2 is one block of STDiT2.
type block2 struct {
	table         kernels.Tensor    // scale_shift_table (6, C): shift, scale, gate of attention, then of the MLP
	tableTemporal kernels.Tensor    // scale_shift_table_temporal (3, C): shift, scale, gate
	attn          nn.SelfAttention  // attn, along the patches of a frame
	attnTemp      nn.SelfAttention  // attn_temp, along the frames of a patch
	cross         nn.CrossAttention // cross_attn
	mlp           nn.MLP            // mlp
}

func loadSTDiT2(cfg Config, w *weight.Weights) *stdit2 {
	c := cfg.HiddenSize
	m := &stdit2{
		Config:      cfg,
		size:        nn.LoadSizeEmbedder(w.Sub("csize_embedder"), c/3),
		aspect:      nn.LoadSizeEmbedder(w.Sub("ar_embedder"), c/3),
		length:      nn.LoadSizeEmbedder(w.Sub("fl_embedder"), c),
		fps:         nn.LoadSizeEmbedder(w.Sub("fps_embedder"), c),
		modulation:  nn.LoadLinear(w.Sub("t_block.1"), c, 6*c),
		modTemporal: nn.LoadLinear(w.Sub("t_block_temp.1"), c, 3*c),
		freqs:       loadFreqs(w, cfg),
	}
	m.blocks, m.own = make([]block2, cfg.Depth), w.Blocks(cfg.Depth, "blocks.%d")
	m.flow = w.Flow()
	for i := m.own.Lo; i < m.own.Hi; i++ {
		w := w.Block(i, "blocks.%d")
		b := block2{
			table:         w.Tensor("scale_shift_table", 6, c),
			tableTemporal: w.Tensor("scale_shift_table_temporal", 3, c),
			attn:          nn.LoadSelfAttention(w.Sub("attn"), c, cfg.NumHeads, cfg.QKNorm),
			attnTemp:      nn.LoadSelfAttention(w.Sub("attn_temp"), c, cfg.NumHeads, cfg.QKNorm),
			cross:         nn.LoadCrossAttention(w.Sub("cross_attn"), c, cfg.NumHeads),
			mlp:           nn.LoadMLP(w.Sub("mlp"), c, cfg.mlpWidth(), c),
		}
		b.attnTemp.RopeFirst = true
		m.blocks[i] = b
	}
	return m
}

func (m *stdit2) passing() (sequence.Range, *weight.Flow) { return m.own, m.flow }

func (m *stdit2) crosses() (out []nn.CrossAttention) {
	for i := range m.blocks {
		out = append(out, m.blocks[i].cross)
	}
	return out
}

func (m *stdit2) prepare(be kernels.Backend, p *Prepared, cond Conditions) {
	p.sincos(be, m.Config, cond)
	frames := nn.RopePositions(m.DType, p.times, 1)
	p.timeRope = nn.NewRope(be, m.DType, m.freqs, frames).Reshape(1, p.times.Len, 1) // (1, T', 1, D/2)

	c, b := m.HiddenSize, len(p.lens)
	p.size = be.Alloc(m.DType, b, c) // (B, C): height and width, aspect ratio
	p.frameRate = be.Alloc(m.DType, b, c)
	defer be.Scope()()
	hw := m.size.Forward(be, m.DType, repeat(b, cond.Height, cond.Width)) // (B, 2C/3)
	be.Copy(p.size.Narrow(1, 0, c/3*2), hw)
	be.Copy(p.size.Narrow(1, c/3*2, c/3), m.aspect.Forward(be, m.DType, repeat(b, cond.aspectRatio())))
	length := m.length.Forward(be, m.DType, repeat(b, cond.NumFrames)) // (B, C)
	rate := m.fps.Forward(be, m.DType, cond.fps(b))                    // (B, C)
	be.Binary(p.frameRate, length, rate, kernels.Add)
}

// forward runs the blocks on the stream in place. t (B, C) is the embedding of the timesteps, followed under
// given frames by that of timestep 0. The final layer takes t alone for the denoised frames, but with the size
// added for the given ones.
func (m *stdit2) forward(be kernels.Backend, s *stream, t kernels.Tensor, f nn.FrameMask) (kernels.Tensor, error) {
	tSpatial := plus(be, t, s.p.size)                              // (B or 2B, C)
	tTemporal := plus(be, t, s.p.frameRate)                        // (B or 2B, C)
	t6 := f.Rows(be, blockVector(be, m.modulation, tSpatial), 6)   // (B, T' or 1, 6, C)
	t3 := f.Rows(be, blockVector(be, m.modTemporal, tTemporal), 3) // (B, T' or 1, 3, C)
	for i := range m.flow.Each(m.own) {
		s.block(i)
		if err := m.blocks[i].forward(be, s, t6, t3, i); err != nil {
			return t, err
		}
	}
	if b := f.B; t.Dim(0) > b {
		be.Copy(t.Narrow(0, b, b), tSpatial.Narrow(0, b, b))
	}
	return t, nil
}

// forward advances the stream by block i.
func (b *block2) forward(be kernels.Backend, s *stream, t6, t3 kernels.Tensor, i int) error {
	defer be.Scope()()
	mods := s.modulations(be, b.table, t6)             // (n, T' or 1, 6, C)
	temporal := s.modulations(be, b.tableTemporal, t3) // (n, T' or 1, 3, C)

	// x += gate_attn * attn(modulate(LN(x)))
	if err := s.addSpatial(be, b.attn, mods); err != nil {
		return err
	}
	// x += gate_temp * attn_temp(modulate(LN(x)))
	if err := s.addTemporal(be, b.attnTemp, temporal); err != nil {
		return err
	}
	for k := range s.parts {
		p := &s.parts[k]

		// x += cross_attn(x, text)
		p.p.addText(be, p.x, b.cross, i)

		// x += gate_mlp * mlp(modulate(LN(x)))
		p.addMLP(be, b.mlp, mods[k])
	}
	return nil
}
