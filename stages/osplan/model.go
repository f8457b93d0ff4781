package osplan

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
	embed    nn.PatchEmbed       // pos_embed.proj (C, c, 2, 2)
	timestep nn.TimestepEmbedder // adaln_single.emb.timestep_embedder.linear_1 and linear_2
	blockMod nn.Linear           // adaln_single.linear (6C, C), after a SiLU
	text     nn.MLP              // caption_projection.linear_1 and linear_2 (text -> C -> C)
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
	cross attention      // attn2
	ff    nn.MLP         // ff.net.0.proj, ff.net.2
}

// int8Layers is the prefix of the layers that precision: int8 rounds: the blocks. The first and last layers, the text and the
// modulation are not rounded.
const int8Layers = "transformer_blocks."

// Load loads a model by its published tensor names. Its error lists every tensor that does not fit.
func Load(cfg Config, w *weights.Weights) (*Model, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("load osplan: %w", err)
	}
	w = w.As(cfg.DType).Int8(cfg.Int8, int8Layers)
	c := cfg.Hidden()
	times, caption := w.Sub("adaln_single.emb.timestep_embedder"), w.Sub("caption_projection")
	m := &Model{
		Config: cfg,
		embed:  loadEmbed(w.Sub("pos_embed.proj"), cfg),
		timestep: nn.TimestepEmbedder{Width: nn.SinusoidWidth, L0: nn.LoadLinear(times.Sub("linear_1"), nn.SinusoidWidth, c),
			L2: nn.LoadLinear(times.Sub("linear_2"), c, c)},
		blockMod: nn.LoadLinear(w.Sub("adaln_single.linear"), c, 6*c),
		text: nn.MLP{FC1: nn.LoadLinear(caption.Sub("linear_1"), cfg.TextWidth, c),
			FC2: nn.LoadLinear(caption.Sub("linear_2"), c, c)},
		table:  w.Tensor("scale_shift_table", 2, c),
		out:    nn.LoadLinear(w.Sub("proj_out"), c, cfg.patch().Size()*cfg.OutChannels),
		blocks: make([]block, cfg.Layers),
	}
	m.own, m.flow = w.Blocks(cfg.Layers, "transformer_blocks.%d"), w.Flow()
	for i := m.own.Lo; i < m.own.Hi; i++ {
		b := w.Block(i, "transformer_blocks.%d")
		m.blocks[i] = block{table: b.Tensor("scale_shift_table", 6, c), self: loadAttention(b.Sub("attn1"), cfg),
			cross: loadAttention(b.Sub("attn2"), cfg), ff: nn.LoadMLPOf(b.Sub("ff.net"), "0.proj", "2", c, 4*c, c)}
	}
	if err := w.Check(); err != nil {
		return nil, fmt.Errorf("load osplan: %w", err)
	}
	return m, nil
}

// loadEmbed reads the convolution that turns the patches of a frame into tokens.
func loadEmbed(w *weights.Weights, cfg Config) nn.PatchEmbed {
	c, p := cfg.Hidden(), cfg.patch()
	weight := w.Tensor("weight", c, cfg.InChannels, p[1], p[2])
	if !weight.IsZero() {
		weight = weight.Reshape(c, cfg.InChannels*p.Size())
	}
	return nn.PatchEmbed{Proj: nn.Linear{W: weight, B: w.Tensor("bias", c)}, Patch: p, Channels: cfg.InChannels}
}
