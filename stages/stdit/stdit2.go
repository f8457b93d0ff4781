package stdit

import (
	"latentbeam/kernels"
	"latentbeam/stages/nn"
	"latentbeam/stages/weights"
)

// stdit2 is STDiT2 of Open-Sora 1.1: STDiT whose temporal attention has its own norm, its own modulation and rotary positions.
// Its additional inputs are size, aspect ratio, number of frames and frame rate.
type stdit2 struct {
	trunk
	size        nn.SizeEmbedder // csize_embedder, for height and width, C/3 each
	aspect      nn.SizeEmbedder // ar_embedder, for height/width, C/3
	length      nn.SizeEmbedder // fl_embedder, for the number of frames
	fps         nn.SizeEmbedder // fps_embedder
	modTemporal nn.Linear       // t_block_temp.1 (3C, C), after a SiLU
	freqs       []float32       // rope.freqs
}

func loadSTDiT2(cfg Config, w *weights.Weights) *stdit2 {
	const kind = "blocks.%d"
	c := cfg.HiddenSize
	m := &stdit2{
		trunk:       loadTrunk(cfg, w, cfg.QKNorm, kind),
		size:        nn.LoadSizeEmbedder(w.Sub("csize_embedder"), c/3),
		aspect:      nn.LoadSizeEmbedder(w.Sub("ar_embedder"), c/3),
		length:      nn.LoadSizeEmbedder(w.Sub("fl_embedder"), c),
		fps:         nn.LoadSizeEmbedder(w.Sub("fps_embedder"), c),
		modTemporal: nn.LoadLinear(w.Sub("t_block_temp.1"), c, 3*c),
		freqs:       loadFreqs(w, cfg),
	}
	for i := m.own.Lo; i < m.own.Hi; i++ {
		w, b := w.Block(i, kind), &m.blocks[i]
		b.tableTemporal = w.Tensor("scale_shift_table_temporal", 3, c)
		b.attnTemp = nn.LoadSelfAttention(w.Sub("attn_temp"), c, cfg.NumHeads, cfg.QKNorm)
		b.attnTemp.RopeFirst = true
	}
	return m
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

// forward runs the blocks on the stream in place. t (B, C) is the embedding of the timesteps; with given frames it is followed
// by the embedding of timestep 0. The final layer gets t alone for denoised frames, but t plus the size for given frames.
func (m *stdit2) forward(be kernels.Backend, s *stream, t kernels.Tensor, f nn.FrameMask) (kernels.Tensor, error) {
	tSpatial := plus(be, t, s.p.size)                              // (B or 2B, C)
	tTemporal := plus(be, t, s.p.frameRate)                        // (B or 2B, C)
	t6 := f.Rows(be, blockVector(be, m.modulation, tSpatial), 6)   // (B, T' or 1, 6, C)
	t3 := f.Rows(be, blockVector(be, m.modTemporal, tTemporal), 3) // (B, T' or 1, 3, C)
	err := m.eachBlock(be, s, func(i int, b *block) error {
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
			b.addTextAndMLP(be, &s.parts[k], mods[k], i)
		}
		return nil
	})
	if b := f.B; t.Dim(0) > b {
		be.Copy(t.Narrow(0, b, b), tSpatial.Narrow(0, b, b))
	}
	return t, err
}
