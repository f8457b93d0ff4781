package stdit

import (
	"fmt"

	"latentbeam/kernels"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/nn"
	"latentbeam/stages/sequence"
	"latentbeam/stages/weights"
)

// Model is a denoiser of the STDiT family: the common part of all versions, with the network of one. It is read-only after
// loading and safe for use by any backend of its device.
type Model struct {
	Config
	patch    nn.PatchEmbed       // x_embedder
	timestep nn.TimestepEmbedder // t_embedder
	nullText kernels.Tensor      // y_embedder.y_embedding (rows, caption), the learned null caption
	caption  nn.MLP              // y_embedder.y_proj (caption -> C -> C)
	net      network
	final    finalLayer // final_layer
}

// network is the part that differs between the versions: conditions and blocks.
type network interface {
	// crosses returns the cross attentions in the order in which forward runs them.
	crosses() []nn.CrossAttention
	// passing returns the range of blocks, or pairs of blocks, on this rank, and the flow that loads them.
	passing() (own sequence.Range, flow *weights.Flow)
	// prepare stores the positions and embedded conditions of a batch in p.
	prepare(be kernels.Backend, p *Prepared, cond Conditions)
	// forward runs the blocks on the stream in place. t (B, C) has the timestep embeddings of its rows; if f has given frames,
	// it is (2B, C) with the embeddings of timestep 0 in the second half. It returns the embedding for the final layer.
	forward(be kernels.Backend, s *stream, t kernels.Tensor, f nn.FrameMask) (kernels.Tensor, error)
}

// int8Layers are the prefixes of the layers that precision: int8 rounds: the blocks. The first and last layers, the text and
// the modulation are not rounded.
var int8Layers = []string{"blocks.", "spatial_blocks.", "temporal_blocks."}

// Load loads a model by its published tensor names. Its error lists every tensor that does not fit. Position tables in the
// files are not read, because they are computed for each size.
func Load(cfg Config, w *weights.Weights) (*Model, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	w = w.As(cfg.DType).Int8(cfg.Int8, int8Layers...)
	c := cfg.HiddenSize
	m := &Model{
		Config:   cfg,
		patch:    nn.LoadPatchEmbed(w.Sub("x_embedder"), cfg.PatchSize, cfg.InChannels, c),
		timestep: nn.LoadTimestepEmbedder(w.Sub("t_embedder"), c),
		nullText: w.Rows("y_embedder.y_embedding", cfg.ModelMaxLength, cfg.CaptionChannels),
		caption:  nn.LoadMLP(w.Sub("y_embedder.y_proj"), cfg.CaptionChannels, c, c),
		final: finalLayer{
			table:  w.Tensor("final_layer.scale_shift_table", 2, c),
			linear: nn.LoadLinear(w.Sub("final_layer.linear"), c, cfg.PatchSize.Size()*cfg.OutChannels()),
		},
	}
	switch cfg.Version {
	case OpenSora10:
		m.net = loadSTDiT1(cfg, w)
	case OpenSora11:
		m.net = loadSTDiT2(cfg, w)
	default:
		m.net = loadSTDiT3(cfg, w)
	}
	if err := w.Check("pos_embed", "pos_embed_temporal"); err != nil {
		return nil, fmt.Errorf("load stdit: %w", err)
	}
	return m, nil
}

// loadFreqs returns the frequencies of rotary positions from the file, or the usual ones if the file has none.
func loadFreqs(w *weights.Weights, cfg Config) []float32 {
	n := cfg.HiddenSize / cfg.NumHeads / 2
	if cfg.KernelSize != nil {
		n /= 3 // a third of the channels each for frame, row and column
	}
	if freqs := w.Values("rope.freqs", n); freqs != nil {
		return freqs
	}
	return nn.RopeFreqs(n)
}

// Forward evaluates the network once, in the scope open at the call. x (B, c_in, T, H, W) are latents; timesteps (B) are
// positions in the training process, 0 to 1000, not indices of sampling steps; p has the texts and conditions. The result (B,
// c_out, T, H, W) in fp32 is noise or velocity and, with pred_sigma, the same number of channels for the variance. generated (B
// x T', row-major) says which frames are being denoised; nil: all are.
func (m *Model) Forward(be kernels.Backend, x kernels.Tensor, timesteps []float32, generated []bool,
	p *Prepared) (kernels.Tensor, error) {
	if err := m.checkInput(x, timesteps, p); err != nil {
		return kernels.Tensor{}, fmt.Errorf("stdit: %w", err)
	}
	d := m.describe()
	all := nn.Part{Rows: nn.Span{Len: x.Dim(0)}, Patches: p.patches}
	out, err := d.Forward(be, m.batch(be, p, []nn.Part{all}, nil), x,
		dit.Instant{Timesteps: timesteps, Generated: generated})
	if err != nil {
		return kernels.Tensor{}, fmt.Errorf("stdit: %w", err)
	}
	return out, nil
}

// rounded returns the timesteps as the network gets them: up to 1.2 they are cast to the model's type, which in bf16 turns
// 966.67 into 968.
func (m *Model) rounded(timesteps []float32) []float32 {
	if m.Version == OpenSora13 {
		return timesteps
	}
	out := make([]float32, len(timesteps))
	for i, t := range timesteps {
		out[i] = m.DType.Round(t)
	}
	return out
}

// blockVector returns linear(silu(t)), the modulation of all blocks: t (B, C) -> (B, R C).
func blockVector(be kernels.Backend, linear nn.Linear, t kernels.Tensor) kernels.Tensor {
	silu := be.Alloc(t.DType, t.Shape...) // (B, C)
	be.Unary(silu, t, kernels.SiLU)
	return linear.Forward(be, silu, kernels.Identity)
}

// plus returns t (k B, C) with v (B, C) added to each of its k parts.
func plus(be kernels.Backend, t, v kernels.Tensor) kernels.Tensor {
	b, c := v.Dim(0), v.Dim(1)
	halves := t.Reshape(t.Dim(0)/b, b, c)
	sum := be.Alloc(t.DType, halves.Shape...)
	be.Binary(sum, halves, v.Expand(halves.Shape...), kernels.Add)
	return sum.Reshape(t.Shape...)
}

func (m *Model) checkInput(x kernels.Tensor, timesteps []float32, p *Prepared) error {
	if len(x.Shape) != 5 || x.Dim(1) != m.InChannels {
		return fmt.Errorf("latents have shape %v, want (B, %d, T, H, W)", x.Shape, m.InChannels)
	}
	if g, have := m.patchGrid(x), p.grid(); g != have {
		return fmt.Errorf("latents of shape %v make a patch grid of %dx%dx%d, prepared was %dx%dx%d",
			x.Shape, g[0], g[1], g[2], have[0], have[1], have[2])
	}
	if len(timesteps) != x.Dim(0) || len(p.lens) != x.Dim(0) {
		return fmt.Errorf("%d latents, %d timesteps and %d texts must be as many",
			x.Dim(0), len(timesteps), len(p.lens))
	}
	return nil
}
