package stdit

import (
	"fmt"

	"latentbeam/kernels"
	"latentbeam/stages/nn"
)

// Model is an STDiT. It is read-only once loaded and may serve any backend of its device.
type Model struct {
	Config
	patch      nn.PatchEmbed       // x_embedder
	timestep   nn.TimestepEmbedder // t_embedder
	modulation nn.Linear           // t_block.1 (6C, C), behind a SiLU
	nullText   kernels.Tensor      // y_embedder.y_embedding (rows, caption), the learned null caption
	caption    nn.MLP              // y_embedder.y_proj (caption -> C -> C)
	blocks     []block             // blocks.N
	final      finalLayer          // final_layer
}

// finalLayer modulates by the timestep embedding itself, not by t_block's output, and projects to pixels.
type finalLayer struct {
	table  kernels.Tensor // scale_shift_table (2, C): shift, scale
	linear nn.Linear      // linear (pt ph pw c_out, C)
}

// Load reads a model by the published tensor names. Its error lists every tensor that does not fit. The
// position tables that the files hold are recomputed for each size, so they are not read.
func Load(cfg Config, w *nn.Weights) (*Model, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	c := cfg.HiddenSize
	m := &Model{
		Config:     cfg,
		patch:      nn.LoadPatchEmbed(w.Sub("x_embedder"), cfg.PatchSize, cfg.InChannels, c),
		timestep:   nn.LoadTimestepEmbedder(w.Sub("t_embedder"), c),
		modulation: nn.LoadLinear(w.Sub("t_block.1"), c, 6*c),
		nullText:   w.Rows("y_embedder.y_embedding", cfg.ModelMaxLength, cfg.CaptionChannels),
		caption:    nn.LoadMLP(w.Sub("y_embedder.y_proj"), cfg.CaptionChannels, c, c),
		final: finalLayer{
			table:  w.Tensor("final_layer.scale_shift_table", 2, c),
			linear: nn.LoadLinear(w.Sub("final_layer.linear"), c, cfg.PatchSize.Size()*cfg.OutChannels()),
		},
	}
	for i := range cfg.Depth {
		m.blocks = append(m.blocks, loadBlock(w.Subf("blocks.%d", i), cfg))
	}
	if err := w.Check("pos_embed", "pos_embed_temporal"); err != nil {
		return nil, fmt.Errorf("load stdit: %w", err)
	}
	return m, nil
}

// Forward evaluates the network once, in the scope open at the call: latents x (B, c_in, T, H, W) at the
// given timesteps (B; 0 to 999, not the index of the sampling step) under the texts of p give
// (B, c_out, T, H, W): the noise and, with pred_sigma, the variance's interpolation.
func (m *Model) Forward(be kernels.Backend, x kernels.Tensor, timesteps []float32, p *Prepared) (
	kernels.Tensor, error) {
	if err := m.checkInput(x, timesteps, p); err != nil {
		return kernels.Tensor{}, fmt.Errorf("stdit: %w", err)
	}
	b := x.Dim(0)
	out := be.Alloc(kernels.F32, b, m.OutChannels(), x.Dim(2), x.Dim(3), x.Dim(4)) // (B, c_out, T, H, W)
	defer be.Scope()()

	h := m.patch.Forward(be, x) // (B, T', S, C)
	be.Binary(h, h, p.spatial.Expand(h.Shape...), kernels.Add)
	t := m.timestep.Forward(be, timesteps)    // (B, C)
	silu := be.Alloc(kernels.F32, t.Shape...) // (B, C)
	be.Unary(silu, t, kernels.SiLU)
	t6 := m.modulation.Forward(be, silu, kernels.Identity) // (B, 6C)
	t6 = t6.Reshape(b, 6, m.HiddenSize)                    // (B, 6, C)
	for i := range m.blocks {
		temporal := kernels.Tensor{}
		if i == 0 {
			temporal = p.temporal // (1, T', 1, C)
		}
		m.blocks[i].forward(be, h, t6, p.kv[i], p.lens, temporal)
	}
	m.final.forward(be, out, h, t, m.PatchSize)
	return out, nil
}

// forward computes the output latents dst (B, c_out, T, H, W) of tokens x (B, T', S, C) and the timestep
// embedding t (B, C).
func (f finalLayer) forward(be kernels.Backend, dst, x, t kernels.Tensor, patch nn.Patch) {
	defer be.Scope()()
	b, c := t.Dim(0), t.Dim(1)
	mod := be.Alloc(kernels.F32, b, 2, c) // (B, 2, C)
	be.Binary(mod, f.table.Expand(b, 2, c), t.Reshape(b, 1, c).Expand(b, 2, c), kernels.Add)
	shift := nn.ModulationRow(mod, 0, x.Dim(1), x.Dim(2)) // (B, T', S, C)
	scale := nn.ModulationRow(mod, 1, x.Dim(1), x.Dim(2)) // (B, T', S, C)
	h := nn.Modulate(be, x, shift, scale)                 // (B, T', S, C)
	tokens := f.linear.Forward(be, h, kernels.Identity)   // (B, T', S, pt ph pw c_out)
	nn.Unpatchify(be, dst, tokens, patch)
}

func (m *Model) checkInput(x kernels.Tensor, timesteps []float32, p *Prepared) error {
	if len(x.Shape) != 5 || x.Dim(1) != m.InChannels {
		return fmt.Errorf("latents have shape %v, want (B, %d, T, H, W)", x.Shape, m.InChannels)
	}
	t, h, w := m.PatchSize.Grid(x.Dim(2), x.Dim(3), x.Dim(4))
	if t != p.frames || h != p.rows || w != p.cols {
		return fmt.Errorf("latents of shape %v make a patch grid of %dx%dx%d, prepared was %dx%dx%d",
			x.Shape, t, h, w, p.frames, p.rows, p.cols)
	}
	if len(timesteps) != x.Dim(0) || len(p.lens) != x.Dim(0) {
		return fmt.Errorf("%d latents, %d timesteps and %d texts must be as many",
			x.Dim(0), len(timesteps), len(p.lens))
	}
	return nil
}
