package stdit

import (
	"latentbeam/kernels"
	"latentbeam/stages/nn"
	"latentbeam/stages/weights"
)

// stdit3 is STDiT3 of Open-Sora 1.2 and 1.3: spatial and temporal blocks alternate, each with its own attention, text and MLP.
// One vector of timestep and frame rate modulates all blocks; height and width only scale the positions.
//
// In 1.3 the temporal blocks attend inside windows of patches over all frames, rotary positions have three axes and are also
// used in the spatial blocks, and given frames are a second input (Prepared.Condition).
type stdit3 struct {
	trunk                            // spatial_blocks.0, temporal_blocks.0, spatial_blocks.1, ...
	fps              nn.SizeEmbedder // fps_embedder
	freqs            []float32       // rope.freqs
	given, givenMask nn.PatchEmbed   // x_embedder_cond, x_embedder_cond_mask, in 1.3
}

func loadSTDiT3(cfg Config, w *weights.Weights) *stdit3 {
	c := cfg.HiddenSize
	m := &stdit3{
		trunk: loadTrunk(cfg, w, cfg.QKNorm, "spatial_blocks.%d", "temporal_blocks.%d"),
		fps:   nn.LoadSizeEmbedder(w.Sub("fps_embedder"), c),
		freqs: loadFreqs(w, cfg),
	}
	if cfg.Version == OpenSora13 {
		m.given = nn.LoadPatchEmbed(w.Sub("x_embedder_cond"), cfg.PatchSize, cfg.InChannels, c)
		m.givenMask = nn.LoadPatchEmbed(w.Sub("x_embedder_cond_mask"), cfg.PatchSize, cfg.InChannels, c)
	}
	return m
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
	// Rows and columns are counted from the corner of their window: (rows, columns, T', D/2).
	p.timeRope = nn.NewRope3D(be, m.DType, m.freqs, line(p.windows.Rows), line(p.windows.Cols),
		nn.RopePositions(m.DType, p.times, 1))
	if m.UseSpatialRope { // (1, 1, S, D/2)
		p.spaceRope = nn.NewRope3D(be, m.DType, m.freqs, line(p.rows), line(p.cols), []float32{0}).
			Reshape(1, 1, p.rows*p.cols).Narrow(2, p.patches)
	}
}

// forward runs the blocks on the stream in place. t (B, C) is the embedding of the timesteps; with given frames it is followed
// by the embedding of timestep 0. The final layer gets t plus the frame rate.
func (m *stdit3) forward(be kernels.Backend, s *stream, t kernels.Tensor, f nn.FrameMask) (kernels.Tensor, error) {
	t = plus(be, t, s.p.frameRate)                        // (B or 2B, C)
	t6 := f.Rows(be, blockVector(be, m.modulation, t), 6) // (B, T' or 1, 6, C)
	return t, m.eachBlock(be, s, func(i int, b *block) error {
		mods := s.modulations(be, b.table, t6) // (n, T' or 1, 6, C)

		// x += gate_attn * attn(modulate(LN(x)))
		attend := s.addSpatial
		if i%2 == 1 {
			attend = s.addTemporal
		}
		if err := attend(be, b.attn, mods); err != nil {
			return err
		}
		for k := range s.parts {
			b.addTextAndMLP(be, &s.parts[k], mods[k], i)
		}
		return nil
	})
}
