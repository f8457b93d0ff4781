package stdit

import (
	"slices"
	"testing"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/stages/nn"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/weights"
)

func tinyConfig() Config {
	return Config{
		InputSize: [3]int{3, 4, 6}, InChannels: 4, PatchSize: nn.Patch{1, 2, 2}, HiddenSize: 48, Depth: 2,
		NumHeads: 4, MLPRatio: 4, PredSigma: true, CaptionChannels: 20, ModelMaxLength: 9,
		SpaceScale: 0.5, TimeScale: 1, InputSqSize: 32,
	}
}

// tinyConfigs returns a small model of each version, in fp32 and, from 1.1 on, in bf16.
func tinyConfigs() []Config {
	var out []Config
	for v := OpenSora10; v <= OpenSora13; v++ {
		c := tinyConfig()
		c.Version, c.QKNorm = v, v != OpenSora10
		if v == OpenSora13 {
			c.KernelSize, c.UseSpatialRope = &[3]int{2, 2, -1}, true
		}
		half := c
		half.DType = kernels.BF16
		out = append(out, c, half)
		if v == OpenSora10 {
			half.DType = kernels.F16
			out = append(out, half)
		}
	}
	return out
}

func (c Config) name() string { return "v" + c.Version.String() + " " + c.DType.String() }

// inputs returns n latents of shape[1:] under texts of 1 to 9 tokens, from 1.1 on with given frames.
func inputs(cfg Config, shape []int) input {
	in := input{shape: shape, x: nntest.Hash("x", 1.7, shape...),
		cond: Conditions{Height: 40, Width: 56, NumFrames: 9}}
	for i := range shape[0] {
		in.timesteps = append(in.timesteps, float32(999-123*i))
		text := nntest.Hash("y", 1, shape[0], cfg.ModelMaxLength, cfg.CaptionChannels)
		length := 1 + i*4%cfg.ModelMaxLength
		in.texts = append(in.texts, text[i*cfg.ModelMaxLength*cfg.CaptionChannels:][:length*cfg.CaptionChannels])
		in.cond.FPS = append(in.cond.FPS, float64(24-i))
	}
	if cfg.Version != OpenSora10 {
		for i := range shape[0] * shape[2] {
			in.generated = append(in.generated, i%3 != 1)
		}
	}
	if cfg.Version == OpenSora13 {
		in.given, in.givenMask = nntest.Hash("given", 1.7, shape...), nntest.Hash("mask", 1, shape...)
		in.frames = []int{shape[2] - 1}
	}
	return in
}

// TestRowsAreIndependent: a row has the same bits alone and in any batch, whatever texts, frame rates and given frames the
// other rows have, with any number of threads.
func TestRowsAreIndependent(t *testing.T) {
	for _, cfg := range tinyConfigs() {
		t.Run(cfg.name(), func(t *testing.T) {
			one := newHarness(t, cfg, 1)
			in := inputs(cfg, []int{3, 4, 3, 5, 6}) // 5 rows: the patch pads one, windows do not divide the grid
			together := one.forward(t, in)
			out := len(together) / 3
			for i := range 3 {
				if !slices.Equal(one.forward(t, in.row(i)), together[i*out:][:out]) {
					t.Errorf("row %d: other bits alone than in the batch", i)
				}
			}
			for _, threads := range []int{2, 8} {
				other := harness{cpu.New(threads), one.m}
				if !slices.Equal(other.forward(t, in), together) {
					t.Errorf("other bits on %d threads", threads)
				}
			}
		})
	}
}

// TestOtherSizes runs sizes other than input_size: other frame counts, one frame, and sides that are not multiples of the
// patch, which must equal the result for a latent padded by hand.
func TestOtherSizes(t *testing.T) {
	cfg := tinyConfig()
	cfg.PatchSize = nn.Patch{2, 2, 3}
	r := newHarness(t, cfg, 2)
	odd, even := []int{1, 4, 3, 5, 7}, []int{1, 4, 4, 6, 9}
	in := inputs(cfg, odd)
	got := r.forward(t, in)
	padded := in
	padded.x, padded.shape = pad(in.x, odd, even), even
	want := crop(r.forward(t, padded), 8, odd, even)
	if !slices.Equal(got, want) {
		t.Error("a latent that the patch does not divide differs from the one padded by hand")
	}
	for _, shape := range [][]int{{1, 4, 1, 2, 3}, {2, 4, 7, 2, 12}} {
		in := inputs(cfg, shape)
		if got := r.forward(t, in); len(got) != 2*len(in.x) {
			t.Errorf("%v gave %d values", shape, len(got))
		}
	}
}

// pad puts x of shape small into zeros of shape big, both (1, C, T, H, W).
func pad(x []float32, small, big []int) []float32 {
	out := make([]float32, big[1]*big[2]*big[3]*big[4])
	visit(small[1], small, big, func(from, to int) { out[to] = x[from] })
	return out
}

// crop is the inverse of pad for c channels.
func crop(x []float32, c int, small, big []int) []float32 {
	out := make([]float32, c*small[2]*small[3]*small[4])
	visit(c, small, big, func(from, to int) { out[from] = x[to] })
	return out
}

func visit(channels int, small, big []int, f func(small, big int)) {
	i := 0
	for c := range channels {
		for t := range small[2] {
			for h := range small[3] {
				for w := range small[4] {
					f(i, ((c*big[2]+t)*big[3]+h)*big[4]+w)
					i++
				}
			}
		}
	}
}

// TestPositionTablesAreIgnored: published files contain position tables, but only for the size of training.
func TestPositionTablesAreIgnored(t *testing.T) {
	cfg := tinyConfig()
	shapes := shapes(t, cfg)
	shapes["pos_embed"], shapes["pos_embed_temporal"] = []int{1, 77, 48}, []int{1, 16, 48}
	be := cpu.New(1)
	if _, err := Load(cfg, weights.NewWeights(be, nntest.File(t, shapes))); err != nil {
		t.Fatal(err)
	}
	shapes["rope.freqs"] = []int{6}
	delete(shapes, "blocks.1.attn_temp.qkv.bias")
	_, err := Load(cfg, weights.NewWeights(be, nntest.File(t, shapes)))
	nntest.WantError(t, "another model's tensor", err, `unexpected  "rope.freqs" [6]`)
	nntest.WantError(t, "a missing tensor", err, `missing     "blocks.1.attn_temp.qkv.bias" [144]`)
}

// TestNullText: the null caption is cut to the prompt's length; a table shorter than model_max_length is continued with its
// last row.
func TestNullText(t *testing.T) {
	cfg := tinyConfig()
	shapes := shapes(t, cfg)
	shapes["y_embedder.y_embedding"] = []int{3, cfg.CaptionChannels}
	be := cpu.New(1)
	m, err := Load(cfg, weights.NewWeights(be, nntest.File(t, shapes)))
	if err != nil {
		t.Fatal(err)
	}
	table := nntest.Weight("y_embedder.y_embedding", 3, cfg.CaptionChannels)
	for _, n := range []int{1, 3, 5} {
		got := make([]float32, n*cfg.CaptionChannels)
		if err := be.Download(got, m.NullText(be, n)); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			want := table[min(i, 2)*cfg.CaptionChannels:][:cfg.CaptionChannels]
			if !slices.Equal(got[i*cfg.CaptionChannels:][:cfg.CaptionChannels], want) {
				t.Errorf("row %d of %d is not row %d of the table", i, n, min(i, 2))
			}
		}
	}
}

func TestInputIsChecked(t *testing.T) {
	r := newHarness(t, tinyConfig(), 1)
	text := func(l, c int) []kernels.Tensor { return []kernels.Tensor{r.be.Alloc(kernels.F32, l, c)} }
	for _, c := range []struct {
		t, h, w int
		texts   []kernels.Tensor
		want    string
	}{
		{3, 4, 6, text(2, 21), "text 0 has shape [2 21], want (L, 20)"},
		{3, 4, 6, text(10, 20), "text 0 has 10 tokens"},
		{3, 4, 6, text(0, 20), "text 0 has 0 tokens"},
		{3, 4, 6, nil, "no texts"},
		{0, 4, 6, text(2, 20), "each side must be 1 to"},
		{3, 4, MaxLatentSide + 1, text(2, 20), "each side must be 1 to"},
	} {
		_, err := r.m.Prepare(r.be, sizeOf(c.t, c.h, c.w), Conditions{}, c.texts)
		nntest.WantError(t, "prepare", err, c.want)
	}
	p, err := r.m.Prepare(r.be, sizeOf(3, 4, 6), Conditions{}, text(2, 20))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		shape []int
		want  string
	}{
		{[]int{1, 4, 3, 4, 8}, "prepared was 3x2x3"},
		{[]int{1, 3, 3, 4, 6}, "want (B, 4, T, H, W)"},
		{[]int{2, 4, 3, 4, 6}, "2 latents, 1 timesteps and 1 texts"},
		{[]int{4, 3, 4, 6}, "want (B, 4, T, H, W)"},
	} {
		_, err := r.m.Forward(r.be, r.be.Alloc(kernels.F32, c.shape...), []float32{1}, nil, p)
		nntest.WantError(t, "forward", err, c.want)
	}
	if err := r.be.Wait(); err != nil {
		t.Fatal(err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	for _, c := range []struct{ json, want string }{
		{`{}`, ""},
		{`{"depth":0}`, "depth is 0"},
		{`{"num_heads":5}`, "divisible by num_heads 5"},
		{`{"hidden_size":18,"num_heads":3}`, "and by 4"},
		{`{"patch_size":[1,0,2]}`, "patch_size[1] is 0"},
		{`{"space_scale":0}`, "space_scale 0"},
		{`{"mlp_ratio":1e9}`, "mlp_ratio"},
		{`{"hidden_size":"wide"}`, "parse stdit config.json"},
		{`{"model_type":"STDiT2","hidden_size":1024}`, "divisible by 3"},
		{`{"model_type":"STDiT3","hidden_size":1172,"num_heads":4}`, "heads of width 293"},
		{`{"model_type":"STDiT3","input_sq_size":0}`, "input_sq_size is 0"},
		{`{"model_type":"STDiT3","skip_y_embedder":true}`, "skip_y_embedder"},
		{`{"model_type":"STDiT3","in_channels":16,"kernel_size":[8,0,-1]}`, "kernel_size is [8 0 -1]"},
		{`{"model_type":"STDiT3","in_channels":16,"kernel_size":[8,8,4]}`, "-1 for all frames"},
		{`{"model_type":"STDiT3","kernel_size":null,"use_spatial_rope":true}`, "use_spatial_rope needs kernel_size"},
		{`{"model_type":"STDiT3","kernel_size":[8,8,-1],"num_heads":18}`, "divisible by 6"},
		{`{"model_type":"STDiT3","in_channels":16,"skip_temporal":true}`, "skip_temporal"},
		{`{"model_type":"STDiT","enable_flashattn":true,"dtype":null}`, ""},
	} {
		_, err := ParseConfig([]byte(c.json))
		nntest.WantError(t, c.json, err, c.want)
	}
}
