package wan

import (
	"fmt"

	"latentbeam/kernels"
	"latentbeam/stages/nn"
	"latentbeam/stages/sequence"
	"latentbeam/stages/weights"
)

// Model is a denoiser with its weights on a device. It is read-only after loading and safe for use by any backend of the
// device.
type Model struct {
	Config
	patch    nn.PatchEmbed       // patch_embedding
	timestep nn.TimestepEmbedder // condition_embedder.time_embedder.linear_1 and linear_2
	blockMod nn.Linear           // condition_embedder.time_proj (6C, C), after a SiLU
	text     nn.MLP              // condition_embedder.text_embedder.linear_1 and linear_2 (text -> C -> C)
	image    *imageEmbedder      // condition_embedder.image_embedder; nil: the network has none
	blocks   []block
	own      sequence.Range // of blocks on this rank
	flow     *weights.Flow
	table    kernels.Tensor // scale_shift_table (2, C): shift, scale of the head
	out      nn.Linear      // proj_out (pt ph pw c, C)
}

// block holds the weights of one block.
type block struct {
	table kernels.Tensor // scale_shift_table (6, C): shift, scale, gate of attention, then of the MLP
	self  attention      // attn1
	norm  norm           // norm2, before the attention to the text
	cross attention      // attn2
	ffn   nn.MLP         // ffn.net.0.proj, ffn.net.2
}

// norm is a LayerNorm with weight and bias (C).
type norm struct {
	w, b kernels.Tensor
	eps  float32
}

// int8Layers is the prefix of the layers that precision: int8 rounds: the blocks. The first and last layers, the text and the
// modulation are not rounded.
const int8Layers = "blocks."

// Load reads a model by the tensor names of diffusers. Its error lists every tensor that does not fit.
func Load(cfg Config, w *weights.Weights) (*Model, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("load wan: %w", err)
	}
	if w.Has(originalLayout.Mark) {
		return nil, fmt.Errorf("load wan: %w", errOriginal)
	}
	w = w.As(cfg.DType).Int8(cfg.Int8, int8Layers)
	c, p := cfg.Hidden(), cfg.PatchSize
	cond := w.Sub("condition_embedder")
	timestep := inFP32(cond.Sub("time_embedder"))
	m := &Model{
		Config: cfg,
		timestep: nn.TimestepEmbedder{Width: cfg.FreqDim, L0: nn.LoadLinear(timestep.Sub("linear_1"), cfg.FreqDim, c),
			L2: nn.LoadLinear(timestep.Sub("linear_2"), c, c)},
		blockMod: nn.LoadLinear(cond.Sub("time_proj"), c, 6*c),
		text: nn.MLP{FC1: nn.LoadLinear(cond.Sub("text_embedder.linear_1"), cfg.TextWidth, c),
			FC2: nn.LoadLinear(cond.Sub("text_embedder.linear_2"), c, c)},
		table:  table(w, 2, c),
		out:    nn.LoadLinear(w.Sub("proj_out"), c, p.Size()*cfg.OutChannels),
		blocks: make([]block, cfg.Layers),
	}
	embed := w.Tensor("patch_embedding.weight", c, cfg.InChannels, p[0], p[1], p[2])
	if !embed.IsZero() {
		embed = embed.Reshape(c, cfg.InChannels*p.Size())
	}
	m.patch = nn.PatchEmbed{Proj: nn.Linear{W: embed, B: w.Tensor("patch_embedding.bias", c)}, Patch: p,
		Channels: cfg.InChannels}
	if cfg.ImageDim != nil {
		m.image = loadImageEmbedder(cond.Sub("image_embedder"), cfg)
	}
	m.own, m.flow = w.Blocks(cfg.Layers, "blocks.%d"), w.Flow()
	for i := m.own.Lo; i < m.own.Hi; i++ {
		m.blocks[i] = loadBlock(w.Block(i, "blocks.%d"), cfg)
	}
	if err := w.Check(cfg.gates(w)...); err != nil {
		return nil, fmt.Errorf("load wan: %w", err)
	}
	return m, nil
}

// gates returns the tensors of FastVideo's sparse attention, which are not loaded with the option vsa. Without the option, the
// error of the check names them and says what to do.
func (c Config) gates(w *weights.Weights) (patterns []string) {
	has := false
	for i := range c.Layers {
		for _, name := range []string{"blocks.%d.to_gate_compress.", "blocks.%d.attn1.to_gate_compress."} {
			name = fmt.Sprintf(name, i)
			has = has || w.Has(name+"weight")
			patterns = append(patterns, name+"*")
		}
	}
	if c.DenseVSA {
		return patterns
	}
	if has {
		w.Hint("the tensors to_gate_compress are of FastVideo's sparse attention, which is not known here; `vsa: dense` of denoise leaves them " +
			"out and runs the model with full attention, which it was not distilled with")
	}
	return nil
}

func loadBlock(w *weights.Weights, cfg Config) block {
	c := cfg.Hidden()
	return block{
		table: table(w, 6, c),
		self:  loadAttention(w.Sub("attn1"), cfg),
		norm:  loadNorm(w.Sub("norm2"), c, nn.LayerNormEps),
		cross: loadCross(w.Sub("attn2"), cfg),
		ffn:   nn.LoadMLPOf(w.Sub("ffn.net"), "0.proj", "2", c, cfg.FFN, c),
	}
}

// inFP32 returns weights in fp32, for layers that the reference always computes in fp32.
func inFP32(w *weights.Weights) *weights.Weights { return w.As(kernels.F32) }

// table reads "scale_shift_table" (1, rows, c) as (rows, c).
func table(w *weights.Weights, rows, c int) kernels.Tensor {
	t := inFP32(w).Tensor("scale_shift_table", 1, rows, c)
	if t.IsZero() {
		return t
	}
	return t.Reshape(rows, c)
}

// loadNorm reads "weight" and "bias" (c).
func loadNorm(w *weights.Weights, c int, eps float32) norm {
	return norm{inFP32(w).Tensor("weight", c), inFP32(w).Tensor("bias", c), eps}
}

// forward returns LN(x) w + b: x (..., C).
func (l norm) forward(be kernels.Backend, x kernels.Tensor) kernels.Tensor {
	y := be.Alloc(x.DType, x.Shape...)
	be.Norm(y, x, kernels.NormSpec{Kind: kernels.LayerNorm, Eps: l.eps, Weight: l.w, Bias: l.b})
	return y
}
