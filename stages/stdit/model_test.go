package stdit

import (
	"slices"
	"strings"
	"testing"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/stages/nn"
	"latentbeam/stages/nn/nntest"
)

func tinyConfig() Config {
	return Config{
		InputSize: [3]int{3, 4, 6}, InChannels: 4, PatchSize: nn.Patch{1, 2, 2}, HiddenSize: 48, Depth: 2,
		NumHeads: 4, MLPRatio: 4, PredSigma: true, CaptionChannels: 20, ModelMaxLength: 9,
		SpaceScale: 0.5, TimeScale: 1,
	}
}

// inputs returns n latents of shape[1:], their timesteps and texts of 1 to 9 tokens.
func inputs(cfg Config, shape []int) (x, timesteps []float32, texts [][]float32) {
	x = nntest.Hash("x", 1.7, shape...)
	for i := range shape[0] {
		timesteps = append(timesteps, float32(999-123*i))
		text := nntest.Hash("y", 1, shape[0], cfg.ModelMaxLength, cfg.CaptionChannels)
		length := 1 + i*4%cfg.ModelMaxLength
		texts = append(texts, text[i*cfg.ModelMaxLength*cfg.CaptionChannels:][:length*cfg.CaptionChannels])
	}
	return x, timesteps, texts
}

// TestRowsAreIndependent: a row gives the same bits alone and in any batch, whatever the texts of its
// neighbours are, on any threads.
func TestRowsAreIndependent(t *testing.T) {
	shape := []int{3, 4, 3, 4, 6}
	one := newHarness(t, tinyConfig(), 1)
	x, timesteps, texts := inputs(one.m.Config, shape)
	together := one.forward(t, x, shape, timesteps, texts)
	in, out := len(x)/3, len(together)/3
	for i := range 3 {
		alone := one.forward(t, x[i*in:][:in], []int{1, 4, 3, 4, 6}, timesteps[i:i+1], texts[i:i+1])
		if !slices.Equal(alone, together[i*out:][:out]) {
			t.Errorf("row %d: other bits alone than in the batch", i)
		}
	}
	for _, threads := range []int{2, 8} {
		other := harness{cpu.New(threads), one.m}
		if !slices.Equal(other.forward(t, x, shape, timesteps, texts), together) {
			t.Errorf("other bits on %d threads", threads)
		}
	}
}

// TestOtherSizes runs sizes that input_size does not name: other frame counts, one frame, and sides that
// the patch does not divide, which must equal the result on a latent padded by hand.
func TestOtherSizes(t *testing.T) {
	cfg := tinyConfig()
	cfg.PatchSize = nn.Patch{2, 2, 3}
	r := newHarness(t, cfg, 2)
	odd, even := []int{1, 4, 3, 5, 7}, []int{1, 4, 4, 6, 9}
	x, timesteps, texts := inputs(cfg, odd)
	got := r.forward(t, x, odd, timesteps, texts)
	want := crop(r.forward(t, pad(x, odd, even), even, timesteps, texts), 8, odd, even)
	if !slices.Equal(got, want) {
		t.Error("a latent that the patch does not divide differs from the one padded by hand")
	}
	for _, shape := range [][]int{{1, 4, 1, 2, 3}, {2, 4, 7, 2, 12}} {
		x, timesteps, texts := inputs(cfg, shape)
		if got := r.forward(t, x, shape, timesteps, texts); len(got) != 2*len(x) {
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

// TestPublishedTensors counts what STDiT-XL/2 asks for: 550 tensors of 760,425,632 elements are in the
// published 16x256 file, two of which are the recomputed position tables.
func TestPublishedTensors(t *testing.T) {
	cfg := DefaultConfig()
	names := nn.ShapesOnly()
	if _, err := Load(cfg, names); err != nil {
		t.Fatal(err)
	}
	elements := 16*16*1152 + 16*1152 // pos_embed, pos_embed_temporal
	for _, shape := range names.Requested() {
		n := 1
		for _, d := range shape {
			n *= d
		}
		elements += n
	}
	if got := len(names.Requested()) + 2; got != 550 || elements != 760425632 {
		t.Errorf("%d tensors of %d elements, want 550 of 760425632", got, elements)
	}
}

// TestPositionTablesAreIgnored: published files hold them, and their size is that of training.
func TestPositionTablesAreIgnored(t *testing.T) {
	cfg := tinyConfig()
	names := nn.ShapesOnly()
	if _, err := Load(cfg, names); err != nil {
		t.Fatal(err)
	}
	shapes := names.Requested()
	shapes["pos_embed"], shapes["pos_embed_temporal"] = []int{1, 77, 48}, []int{1, 16, 48}
	be := cpu.New(1)
	if _, err := Load(cfg, nn.NewWeights(be, nntest.File(t, shapes))); err != nil {
		t.Fatal(err)
	}
	shapes["rope.freqs"] = []int{6}
	delete(shapes, "blocks.1.attn_temp.qkv.bias")
	_, err := Load(cfg, nn.NewWeights(be, nntest.File(t, shapes)))
	for _, want := range []string{`unexpected  "rope.freqs" [6]`, `missing     "blocks.1.attn_temp.qkv.bias" [144]`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %s", err, want)
		}
	}
}

// TestNullText: the null caption is cut to the prompt's length; a table shorter than model_max_length goes
// on with its last row.
func TestNullText(t *testing.T) {
	cfg := tinyConfig()
	names := nn.ShapesOnly()
	if _, err := Load(cfg, names); err != nil {
		t.Fatal(err)
	}
	shapes := names.Requested()
	shapes["y_embedder.y_embedding"] = []int{3, cfg.CaptionChannels}
	be := cpu.New(1)
	m, err := Load(cfg, nn.NewWeights(be, nntest.File(t, shapes)))
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
	for name, f := range map[string]func() error{
		"wrong caption width": func() error { _, err := r.m.Prepare(r.be, 3, 4, 6, text(2, 21)); return err },
		"too long a text":     func() error { _, err := r.m.Prepare(r.be, 3, 4, 6, text(10, 20)); return err },
		"an empty text":       func() error { _, err := r.m.Prepare(r.be, 3, 4, 6, text(0, 20)); return err },
		"no text":             func() error { _, err := r.m.Prepare(r.be, 3, 4, 6, nil); return err },
		"no frames":           func() error { _, err := r.m.Prepare(r.be, 0, 4, 6, text(2, 20)); return err },
		"too wide":            func() error { _, err := r.m.Prepare(r.be, 3, 4, MaxLatentSide+1, text(2, 20)); return err },
	} {
		if f() == nil {
			t.Errorf("%s: no error", name)
		}
	}
	p, err := r.m.Prepare(r.be, 3, 4, 6, text(2, 20))
	if err != nil {
		t.Fatal(err)
	}
	for name, shape := range map[string][]int{
		"another size": {1, 4, 3, 4, 8}, "other channels": {1, 3, 3, 4, 6}, "two rows": {2, 4, 3, 4, 6}, "no batch": {4, 3, 4, 6},
	} {
		if _, err := r.m.Forward(r.be, r.be.Alloc(kernels.F32, shape...), []float32{1}, p); err == nil {
			t.Errorf("%s: no error", name)
		}
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
		{`{"model_type":"STDiT","enable_flashattn":true,"dtype":null}`, ""},
	} {
		_, err := ParseConfig([]byte(c.json))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: error %v, want %q", c.json, err, c.want)
		}
	}
}
