package diffuse

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"testing/fstest"

	"latentbeam/internal/cluster"
	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/diffuse/sampler"
	"latentbeam/stages/nn"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/sequence"
	"latentbeam/stages/weights"
)

// plain is the simplest network there can be: a linear map of every token in every block, with a bias of the text, the
// timestep and the patch. It shows what a network has to do, and is the example in the tests of this package. Full adds
// what Wan and Open-Sora-Plan need: attention over all tokens of the video, with rotary positions and a mask.
type plain struct {
	Version  string  `json:"version"` // whose recipe it follows
	Channels int     `json:"in_channels"`
	Hidden   int     `json:"hidden_size"`
	Blocks   int     `json:"depth"`
	Scale    float64 `json:"space_scale"`
	Full     bool    `json:"full"` // every block begins with attention over all tokens
	Boundary float32 `json:"boundary"`

	opts plainOptions
}

type plainOptions struct {
	dit.Options
	CondType string `yaml:"cond_type" json:"cond_type,omitempty"`
}

const plainConfig = `{"_class_name": "PlainModel", "version": "1.3", "in_channels": 2, "hidden_size": 8, "depth": 3,
	"space_scale": 1}`

const plainHeads = 2

const plainText = 6 // width of a token of text

func plainFamily() dit.Family {
	return dit.Family{
		Name: "Plain", Models: "none published", Options: "cond_type",
		Recognise: func(config []byte) bool { class, _ := dit.ClassName(config); return class == "PlainModel" },
		Open: func(configs dit.Configs, o stages.Options) (dit.Network, error) {
			p := &plain{}
			if err := json.Unmarshal(configs.Config, p); err != nil {
				return nil, err
			}
			if err := o.Into(&p.opts); err != nil {
				return nil, err
			}
			return p, p.opts.Check("Plain", p.Channels, 0)
		},
	}
}

func (p *plain) Describe() dit.Description {
	recipe, err := sampler.OpenSora(p.Version)
	if p.Version == "wan" {
		recipe, err = sampler.Wan(sampler.WanConfig{})
	}
	if err != nil {
		panic(err)
	}
	d := dit.Description{Name: "Plain", Channels: p.Channels, OutChannels: p.outChannels(), Patch: nn.Patch{1, 2, 2},
		Hidden: p.Hidden, Heads: plainHeads, Full: p.Full, Blocks: p.Blocks, Sums: 1, TextWidth: plainText, TextTokens: 5,
		Options: p.opts.Options,
		Recipe:  recipe, LatentScale: 1, Boundary: p.Boundary, Params: []stages.Param{stages.ParamReference, stages.ParamLoop},
		Conditions: dit.Conditions{Marked: true, Group: 5}}
	if p.opts.CondType != "" {
		d.Conditions.Images = &dit.Images{CondType: p.opts.CondType, Guide: sampler.Image{Scale: 3, Ramp: true}}
	}
	return d
}

// outChannels are twice as many if the sampler uses the variance.
func (p *plain) outChannels() int {
	if p.Version < "1.2" {
		return 2 * p.Channels
	}
	return p.Channels
}

func (p *plain) LatentSize(row *schemas.PromptRow) dit.LatentSize {
	return dit.LatentSize{T: max(1, row.NumFrames/16*5), H: row.Height / 8, W: row.Width / 8}
}

func (p *plain) Check(*schemas.PromptRow) error { return nil }

func (p *plain) Load(w *weights.Weights) (dit.Model, error) {
	w = w.As(kernels.F32)
	m := &plainModel{plain: p, embed: nn.LoadPatchEmbed(w.Sub("embed"), nn.Patch{1, 2, 2}, p.Channels, p.Hidden),
		text: nn.LoadLinear(w.Sub("text"), plainText, p.Hidden), null: w.Rows("null", 5, plainText),
		out: nn.LoadLinear(w.Sub("out"), p.Hidden, 4*p.outChannels())}
	m.own, m.blocks = w.Blocks(p.Blocks, "blocks.%d"), make([]nn.Linear, p.Blocks)
	m.attn = make([]nn.SelfAttention, p.Blocks)
	m.flow = w.Flow()
	for i := m.own.Lo; i < m.own.Hi; i++ {
		b := w.Block(i, "blocks.%d")
		m.blocks[i] = nn.LoadLinear(b, p.Hidden, p.Hidden)
		if p.Full {
			m.attn[i] = nn.LoadSelfAttention(b.Sub("attn"), p.Hidden, plainHeads, true)
		}
	}
	return m, w.Check()
}

type plainModel struct {
	*plain
	embed     nn.PatchEmbed
	text, out nn.Linear
	null      kernels.Tensor
	blocks    []nn.Linear
	attn      []nn.SelfAttention
	own       sequence.Range
	flow      *weights.Flow
}

func (m *plainModel) Prepare(be kernels.Backend, rows *dit.Rows) (dit.Batch, error) {
	t, h, w := m.embed.Patch.Grid(rows.Size.T, rows.Size.H, rows.Size.W)
	b := &plainBatch{plainModel: m, be: be, rows: rows, bias: be.Alloc(kernels.F32, len(rows.Rows), 1, 1, m.Hidden),
		places: be.Alloc(kernels.F32, 1, 1, h*w, m.Hidden)}
	be.Upload(b.places, nn.SinCos2D(m.Hidden, w, nn.Span{Len: h * w}, m.Scale))
	if m.Full {
		b.rope = nn.NewVideoRope(be, kernels.F32, nn.RopeAngles(t, 1, 1), nn.RopeAngles(h, 1, 1), nn.RopeAngles(w, 0, 1))
		mask, err := sequence.NewMask([3]int{t, h, w}, [3]int{t, h, w - 1})
		if err != nil {
			return nil, err
		}
		b.masks = slices.Repeat([]sequence.Mask{mask}, rows.Split.Rows(len(rows.Rows)))
	}
	if g := rows.Given; g != nil {
		b.given = be.Alloc(kernels.F32, 1, t, h*w, m.Hidden)
		x := be.Alloc(kernels.F32, 1, m.Channels, rows.Size.T, rows.Size.H, rows.Size.W)
		be.Upload(x, g.Latents)
		m.embed.Into(be, b.given, nn.Patchify(be, kernels.F32, x, m.embed.Patch))
	}
	for i, r := range rows.Rows {
		text := m.null
		if a := r.Caption(); a != nil {
			text = be.Alloc(kernels.F32, a.Shape...)
			be.Upload(text, a.Data)
		}
		be.Linear(b.bias.Index(i).Index(0), text.Narrow(0, 0, 1), m.text.W, kernels.Epilogue{Bias: m.text.B})
	}
	return b, nil
}

type plainBatch struct {
	*plainModel
	be                  kernels.Backend
	rows                *dit.Rows
	bias, places, given kernels.Tensor // (B, 1, 1, C), (1, 1, S, C), (1, T', S, C)
	rope                nn.Rope
	masks               []sequence.Mask
}

func (b *plainBatch) Embed(i int, x, vectors kernels.Tensor) {
	p := b.rows.Parts[i]
	b.embed.Into(b.be, x, vectors)
	b.be.Binary(x, x, b.places.Narrow(2, p.Patches.Start, x.Dim(2)).Expand(x.Shape...), kernels.Add)
	for n := range x.Dim(0) {
		if row := b.rows.Rows[p.Rows.Start+n]; !b.given.IsZero() && row.Branch < 2 {
			x := x.Narrow(0, n, 1)
			b.be.Binary(x, x, b.given.Narrow(2, p.Patches.Start, x.Dim(2)), kernels.Add)
		}
	}
}

func (b *plainBatch) Advance(xs []kernels.Tensor, at dit.Instant, last bool) (outs []kernels.Tensor, err error) {
	for block := range b.flow.Each(b.own) {
		if b.Full {
			gates := make([]kernels.Tensor, len(xs))
			if err := b.attn[block].AddFull(b.be, b.rows.Split, kernels.F32, xs, xs, gates, b.rope, b.masks); err != nil {
				return nil, err
			}
		}
		for i, x := range xs {
			b.advance(block, b.rows.Parts[i].Rows, x, at)
		}
	}
	for _, x := range xs {
		if last {
			y := b.out.Forward(b.be, x, kernels.Identity)
			if b.outChannels() > b.Channels { // random numbers are not a valid variance
				little := b.be.Alloc(kernels.F32, 1, 1, 1, 1)
				b.be.Upload(little, []float32{0.01})
				b.be.Binary(y, y, little.Expand(y.Shape...), kernels.Mul)
			}
			outs = append(outs, y)
		}
	}
	return outs, nil
}

// advance adds linear(x) + bias + timestep to x (n, T', W, C); a given frame is at timestep 0.
func (b *plainBatch) advance(block int, rows nn.Span, x kernels.Tensor, at dit.Instant) {
	defer b.be.Scope()()
	y := b.blocks[block].Forward(b.be, x, kernels.Identity)
	b.be.Binary(x, x, y, kernels.Add)
	b.be.Binary(x, x, b.bias.Narrow(0, rows.Start, rows.Len).Expand(x.Shape...), kernels.Add)
	times := make([]float32, rows.Len*x.Dim(1))
	for i := range times {
		row := rows.Start + i/x.Dim(1)
		if at.Generated == nil || at.Generated[row*x.Dim(1)+i%x.Dim(1)] {
			times[i] = at.Timesteps[row] / 1000
		}
	}
	t := b.be.Alloc(kernels.F32, rows.Len, x.Dim(1), 1, 1)
	b.be.Upload(t, times)
	b.be.Binary(x, x, t.Expand(x.Shape...), kernels.Add)
}

// modelOf is a model on disk with this config.json and hashed weights of a plain network.
func modelOf(t testing.TB, config string) *stages.Model {
	t.Helper()
	p := &plain{}
	if json.Unmarshal([]byte(config), p) != nil || p.Hidden == 0 {
		nntest.Decode(t, json.RawMessage(plainConfig), p)
	}
	shapes := weights.ShapesOnly()
	if _, err := p.Load(shapes); err != nil {
		t.Fatal(err)
	}
	m, err := stages.EmbeddedModel("test", fstest.MapFS{
		"transformer/config.json":                         &fstest.MapFile{Data: []byte(config)},
		"transformer/diffusion_pytorch_model.safetensors": &fstest.MapFile{Data: nntest.FileBytes(t, shapes.Requested())},
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// plainStage is the stage with a plain network.
func plainStage(t testing.TB, change func(o *plainOptions)) *stage {
	t.Helper()
	return stageOf(t, plainConfig, change)
}

// stageOf is the stage with a network of this config.json.
func stageOf(t testing.TB, config string, change func(o *plainOptions)) *stage {
	t.Helper()
	s, err := Spec([]dit.Family{otherFamily, plainFamily()}, nil, func(*stages.Model) (stages.Reencoder, error) { return nil, nil }).
		New(modelOf(t, config), func(into any) error {
			if change != nil {
				change(into.(*plainOptions))
			}
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	return s.(*stage)
}

// otherFamily takes another architecture.
var otherFamily = dit.Family{Name: "Other", Models: "1 to 3", Options: "a, b",
	Recognise: func(config []byte) bool { class, _ := dit.ClassName(config); return class == "Other" }}

// batchOf makes elements of one size with texts and seeds of their own, some with a negative prompt.
func batchOf(n, frames int, guidance float64) []*stages.Element {
	var batch []*stages.Element
	for i := range n {
		seed := int64(100 + i)
		text := func(name string, length int) *stages.Array {
			return &stages.Array{Shape: []int{length, plainText}, Data: nntest.Hash(fmt.Sprint(name, i), 1, length, plainText)}
		}
		e := &stages.Element{Text: &stages.Text{Embedding: text("text", 1+i%5)}}
		if i%2 == 1 {
			e.Text.Negative = text("negative", 2)
		}
		e.Row = schemas.PromptRow{Seed: &seed, SampleIndex: i % 2, NumFrames: frames, Height: 32, Width: 48, FPS: 8,
			NumInferenceSteps: 3, GuidanceScale: &guidance}
		batch = append(batch, e)
	}
	return batch
}

// digest is the SHA-256 over the latents of a batch.
func digest(t testing.TB, batch []*stages.Element) string {
	t.Helper()
	h := sha256.New()
	for i, e := range batch {
		if e.Failed != nil || e.Latents == nil {
			t.Fatalf("element %d has no latents: %v", i, e.Failed)
		}
		fmt.Fprintf(h, "%v%v%g", e.Latents.Shape, e.Latents.Data, e.LatentScale)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// setOf is a set of ranks in this process.
func setOf(speeds []float64, newBackend func() kernels.Backend) *stages.Set {
	s := &stages.Set{Speeds: speeds, Connect: func(context.Context) ([]kernels.Transport, error) {
		return cluster.Shared(len(speeds)), nil
	}}
	for range speeds {
		s.Devices = append(s.Devices, newBackend())
	}
	return s
}
