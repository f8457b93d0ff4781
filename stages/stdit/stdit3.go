package stdit

import (
	"latentbeam/kernels"
	"latentbeam/stages/nn"
	"latentbeam/stages/sequence"
	"latentbeam/stages/weight"
)

// stdit3 is STDiT3 of Open-Sora 1.2 and 1.3: spatial and temporal blocks, each with attention, text and MLP of
// its own, take turns. One vector of timestep and frame rate modulates them all; height and width only scale
// the positions.
//
// In 1.3 the temporal blocks attend inside windows of patches over all frames, rotary positions have three
// axes and serve the spatial blocks too, and given frames come in as a second input (Prepared.Condition).
type stdit3 struct {
	Config
	fps              nn.SizeEmbedder // fps_embedder
	modulation       nn.Linear       // t_block.1 (6C, C), behind a SiLU
	freqs            []float32       // rope.freqs
	blocks           []block3        // spatial_blocks.0, temporal_blocks.0, spatial_blocks.1, ...
	own              sequence.Range  // of pairs of blocks
	flow             *weight.Flow
	given, givenMask nn.PatchEmbed // x_embedder_cond, x_embedder_cond_mask, in 1.3
}

// block3 is one block of STDiT3, spatial or temporal.
type block3 struct {
	temporal bool
	table    kernels.Tensor    // scale_shift_table (6, C): shift, scale, gate of attention, then of the MLP
	attn     nn.SelfAttention  // attn, along the patches of a frame or the frames of a patch
	cross    nn.CrossAttention // cross_attn
	mlp      nn.MLP            // mlp
}

func loadSTDiT3(cfg Config, w *weight.Weights) *stdit3 {
	c := cfg.HiddenSize
	m := &stdit3{
		Config:     cfg,
		fps:        nn.LoadSizeEmbedder(w.Sub("fps_embedder"), c),
		modulation: nn.LoadLinear(w.Sub("t_block.1"), c, 6*c),
		freqs:      loadFreqs(w, cfg),
	}
	m.blocks, m.own, m.flow = make([]block3, 2*cfg.Depth), w.Blocks(cfg.Depth, "spatial_blocks.%d"), w.Flow()
	w.Blocks(cfg.Depth, "temporal_blocks.%d")
	for i := m.own.Lo; i < m.own.Hi; i++ {
		m.blocks[2*i] = loadBlock3(w.Block(i, "spatial_blocks.%d"), cfg, false)
		m.blocks[2*i+1] = loadBlock3(w.Block(i, "temporal_blocks.%d"), cfg, true)
	}
	if cfg.Version == OpenSora13 {
		m.given = nn.LoadPatchEmbed(w.Sub("x_embedder_cond"), cfg.PatchSize, cfg.InChannels, c)
		m.givenMask = nn.LoadPatchEmbed(w.Sub("x_embedder_cond_mask"), cfg.PatchSize, cfg.InChannels, c)
	}
	return m
}

func loadBlock3(w *weight.Weights, cfg Config, temporal bool) block3 {
	c := cfg.HiddenSize
	return block3{
		temporal: temporal,
		table:    w.Tensor("scale_shift_table", 6, c),
		attn:     nn.LoadSelfAttention(w.Sub("attn"), c, cfg.NumHeads, cfg.QKNorm),
		cross:    nn.LoadCrossAttention(w.Sub("cross_attn"), c, cfg.NumHeads),
		mlp:      nn.LoadMLP(w.Sub("mlp"), c, cfg.mlpWidth(), c),
	}
}

func (m *stdit3) passing() (sequence.Range, *weight.Flow) { return m.own, m.flow }

func (m *stdit3) crosses() (out []nn.CrossAttention) {
	for i := range m.blocks {
		out = append(out, m.blocks[i].cross)
	}
	return out
}

func (m *stdit3) prepare(be kernels.Backend, p *Prepared, cond Conditions) {
	p.sincos(be, m.Config, cond)
	p.frameRate = m.fps.Forward(be, m.DType, cond.fps(len(p.lens))) // (B, C)
	if m.KernelSize == nil {
		frames := nn.RopePositions(m.DType, p.times, 1)
		p.timeRope = nn.NewRope(be, m.DType, m.freqs, frames).Reshape(1, p.times.Len, 1) // (1, T', 1, D/2)
		return
	}
	p.windows = nn.Windows{Rows: m.KernelSize[0], Cols: m.KernelSize[1], Grid: [2]int{p.rows, p.cols}}
	scale := m.positionScale(cond)
	line := func(n int) []float32 { return nn.RopePositions(m.DType, nn.Span{Len: n}, scale) }
	// Rows and columns count from the corner of their window: (rows, columns, T', D/2).
	p.timeRope = nn.NewRope3D(be, m.DType, m.freqs, line(p.windows.Rows), line(p.windows.Cols),
		nn.RopePositions(m.DType, p.times, 1))
	if m.UseSpatialRope { // (1, 1, S, D/2)
		p.spaceRope = nn.NewRope3D(be, m.DType, m.freqs, line(p.rows), line(p.cols), []float32{0}).
			Reshape(1, 1, p.rows*p.cols).Narrow(2, p.patches)
	}
}

// forward runs the blocks on the stream in place. t (B, C) is the embedding of the timesteps, followed under
// given frames by that of timestep 0; the final layer takes it with the frame rate added.
func (m *stdit3) forward(be kernels.Backend, s *stream, t kernels.Tensor, f nn.FrameMask) (kernels.Tensor, error) {
	t = plus(be, t, s.p.frameRate)                        // (B or 2B, C)
	t6 := f.Rows(be, blockVector(be, m.modulation, t), 6) // (B, T' or 1, 6, C)
	for pair := range m.flow.Each(m.own) {
		for i := 2 * pair; i < 2*pair+2; i++ {
			s.block(i)
			if err := m.blocks[i].forward(be, s, t6, i); err != nil {
				return t, err
			}
		}
	}
	return t, nil
}

// forward advances the stream by block i.
func (b *block3) forward(be kernels.Backend, s *stream, t6 kernels.Tensor, i int) error {
	defer be.Scope()()
	mods := s.modulations(be, b.table, t6) // (n, T' or 1, 6, C)

	// x += gate_attn * attn(modulate(LN(x)))
	attend := s.addSpatial
	if b.temporal {
		attend = s.addTemporal
	}
	if err := attend(be, b.attn, mods); err != nil {
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
