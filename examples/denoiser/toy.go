package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/diffuse/sampler"
	"latentbeam/stages/nn"
	"latentbeam/stages/sequence"
	"latentbeam/stages/weights"
)

// family is the registration: all that the program knows of the toy.
func family() dit.Family {
	return dit.Family{
		Name: "ToyDiT", Models: "an example",
		Process: sampler.FlowMatching, // solvers and scheduler_config.json of flow matching fit
		Recognise: func(config []byte) bool {
			class, err := dit.ClassName(config)
			return err == nil && class == "ToyDiT"
		},
		Open: func(configs dit.Configs, o stages.Options) (dit.Network, error) {
			c, err := parseConfig(configs.Config)
			if err != nil {
				return nil, err
			}
			n := &network{Config: c}
			if err := o.Into(&n.options); err != nil {
				return nil, err
			}
			choice := sampler.Choice{Name: "euler"}
			if n.options.Sampler != nil {
				choice = *n.options.Sampler
			}
			if choice.Name == "euler" {
				n.recipe, err = sampler.Wan(sampler.WanConfig{Solver: "euler"})
			} else { // of the program
				n.recipe, err = sampler.Choose(choice, configs.Solvers, sampler.FlowMatching, "ToyDiT", "euler")
			}
			if err != nil {
				return nil, err
			}
			return n, n.options.Check("ToyDiT", c.Channels, 0)
		},
		// inspect names checkpoints by their tensors.
		Checkpoint: weights.Family{
			Component: "transformer",
			Guess: func(t weights.Shapes) ([]byte, error) {
				if !t.Has("null_text") || !t.Has("x_embedder.proj.weight") {
					return nil, nil
				}
				return nil, errors.New("the tensors of a ToyDiT do not show its number of heads: keep its config.json beside it")
			},
			Load: weights.Loader(parseConfig, func(c Config, w *weights.Weights) (*model, error) { return load(&network{Config: c}, w) },
				func(c Config) string { return fmt.Sprintf("ToyDiT of depth %d and width %d", c.Depth, c.Hidden) }),
		},
	}
}

// Config is config.json.
type Config struct {
	Channels  int `json:"in_channels"`
	Hidden    int `json:"hidden_size"`
	Depth     int `json:"depth"`
	Heads     int `json:"num_heads"`
	TextWidth int `json:"caption_channels"`
	TextMax   int `json:"model_max_length"`
}

func parseConfig(data []byte) (c Config, err error) {
	if err := json.Unmarshal(data, &c); err != nil {
		return c, fmt.Errorf("parse config.json of ToyDiT: %w", err)
	}
	if min(c.Channels, c.Hidden, c.Depth, c.Heads, c.TextWidth, c.TextMax) < 1 {
		return c, errors.New("config.json of ToyDiT: all sizes must be positive")
	}
	if c.Hidden%(6*c.Heads) != 0 {
		return c, fmt.Errorf("config.json of ToyDiT: hidden_size %d over %d heads: a head needs a multiple of 6", c.Hidden, c.Heads)
	}
	return c, nil
}

// patch is the latent positions of a token: one frame, two rows, two columns.
var patch = nn.Patch{1, 2, 2}

// network is a config.json with the options of a job.
type network struct {
	Config
	options dit.Options
	recipe  sampler.Recipe
}

// Describe returns what the stage must know.
func (n *network) Describe() dit.Description {
	guidance := n.recipe.GuidanceScale
	return dit.Description{Name: "ToyDiT", Channels: n.Channels, OutChannels: n.Channels, Patch: patch, Hidden: n.Hidden,
		Heads: n.Heads, Full: true, Blocks: n.Depth, Sums: 2, TextWidth: n.TextWidth, TextTokens: n.TextMax,
		Options: n.options, Recipe: n.recipe, LatentScale: 0.18215, // of the autoencoder
		Published: schemas.PromptRow{NumInferenceSteps: n.recipe.NumInferenceSteps, GuidanceScale: &guidance, FPS: 8,
			MaxSequenceLength: n.TextMax}}
}

// LatentSize returns the size of a row's latents.
func (n *network) LatentSize(row *schemas.PromptRow) dit.LatentSize {
	return dit.LatentSize{T: row.NumFrames, H: row.Height / 8, W: row.Width / 8}
}

// Check refuses sizes.
func (n *network) Check(row *schemas.PromptRow) error {
	if row.Height%16 != 0 || row.Width%16 != 0 {
		return fmt.Errorf("height is %d and width %d: give multiples of 16", row.Height, row.Width)
	}
	return nil
}

// Load reads the weights by their names.
func (n *network) Load(w *weights.Weights) (dit.Model, error) { return load(n, w) }

func load(n *network, w *weights.Weights) (*model, error) {
	w = w.As(kernels.F32)
	c := n.Hidden
	m := &model{network: n, embed: nn.LoadPatchEmbed(w.Sub("x_embedder"), patch, n.Channels, c),
		text: nn.LoadLinear(w.Sub("y_embedder"), n.TextWidth, c), times: nn.LoadTimestepEmbedder(w.Sub("t_embedder"), c),
		null: w.Tensor("null_text", 1, n.TextWidth), out: nn.LoadLinear(w.Sub("final"), c, patch.Size()*n.Channels),
		blocks: make([]block, n.Depth)}
	m.own, m.flow = w.Blocks(n.Depth, "blocks.%d"), w.Flow() // a rank of a pipeline has some of the blocks
	for i := m.own.Lo; i < m.own.Hi; i++ {
		b := w.Block(i, "blocks.%d")
		m.blocks[i] = block{nn.LoadSelfAttention(b.Sub("attn"), c, n.Heads, true), nn.LoadMLP(b.Sub("mlp"), c, 4*c, c),
			b.Tensor("scale_shift_table", 6, c)}
	}
	return m, w.Check()
}

// block is one layer of the transformer.
type block struct {
	attn  nn.SelfAttention
	mlp   nn.MLP
	table kernels.Tensor // (6, C): shift, scale and gate of the attention, then of the MLP
}

// model is the network with its weights.
type model struct {
	*network
	embed     nn.PatchEmbed
	text, out nn.Linear
	times     nn.TimestepEmbedder
	null      kernels.Tensor // (1, TextWidth)
	blocks    []block
	own       sequence.Range
	flow      *weights.Flow
}

// Prepare brings the first token of each text to the device, and makes the table of rotary positions.
func (m *model) Prepare(be kernels.Backend, rows *dit.Rows) (dit.Batch, error) {
	t, h, w := patch.Grid(rows.Size.T, rows.Size.H, rows.Size.W)
	angles := m.Hidden / m.Heads / 6
	b := &batch{model: m, be: be, rows: rows, bias: be.Alloc(kernels.F32, len(rows.Rows), m.Hidden),
		rope: nn.NewVideoRope(be, kernels.F32, nn.RopeAngles(t, angles, 1), nn.RopeAngles(h, angles, 1), nn.RopeAngles(w, angles, 1))}
	for i, r := range rows.Rows {
		text := m.null
		if a := r.Caption(); a != nil {
			text = be.Alloc(kernels.F32, a.Shape...)
			be.Upload(text, a.Data)
		}
		be.Copy(b.bias.Narrow(0, i, 1), m.text.Forward(be, text.Narrow(0, 0, 1), kernels.Identity))
	}
	return b, nil
}

// batch is some rows on a device.
type batch struct {
	*model
	be   kernels.Backend
	rows *dit.Rows
	bias kernels.Tensor // (B, C)
	rope nn.Rope
}

// Embed makes tokens of patches.
func (b *batch) Embed(_ int, x, vectors kernels.Tensor) { b.embed.Into(b.be, x, vectors) }

// Advance takes the tokens through the blocks of this rank.
func (b *batch) Advance(xs []kernels.Tensor, at dit.Instant, last bool) (outs []kernels.Tensor, err error) {
	be, n := b.be, len(at.Timesteps)
	t := b.times.Forward(be, kernels.F32, at.Timesteps) // (B, C)
	be.Binary(t, t, b.bias, kernels.Add)
	mod := be.Alloc(kernels.F32, n, 1, 6, b.Hidden)
	be.Copy(mod, t.Reshape(n, 1, 1, b.Hidden).Expand(n, 1, 6, b.Hidden))
	for i := range b.flow.Each(b.own) {
		if err := b.advance(b.blocks[i], xs, mod); err != nil {
			return nil, err
		}
	}
	for _, x := range xs {
		if last {
			outs = append(outs, b.out.Forward(be, x, kernels.Identity))
		}
	}
	return outs, nil
}

func (b *batch) advance(l block, xs []kernels.Tensor, mod kernels.Tensor) error {
	be := b.be
	defer be.Scope()()
	mod = nn.ModulationRows(be, l.table, mod)
	var normed, gates []kernels.Tensor
	for k, x := range xs {
		row := b.rows.Modulation(k, mod, x)
		normed, gates = append(normed, nn.Modulate(be, x, row(0), row(1))), append(gates, row(2))
	}
	if err := l.attn.AddFull(be, b.rows.Split, kernels.F32, xs, normed, gates, b.rope, nil); err != nil {
		return err
	}
	for k, x := range xs {
		row := b.rows.Modulation(k, mod, x)
		l.mlp.AddTo(be, x, nn.Modulate(be, x, row(3), row(4)), row(5))
	}
	return nil
}
