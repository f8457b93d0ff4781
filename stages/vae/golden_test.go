package vae

import (
	"encoding/json"
	"slices"
	"testing"

	"latentbeam/internal/safetensors"
	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/stages/nn"
	"latentbeam/stages/nn/nntest"
)

// tolerance against diffusers in fp32, absolute on pixels of about [-1, 1].
const tolerance = 1e-4

type goldenCase struct {
	Config      json.RawMessage `json:"config"`
	ZShape      []int           `json:"z_shape"`
	PixelsShape []int           `json:"pixels_shape"`
	Stride      int             `json:"stride"`
	Pixels      []float32       `json:"pixels"`
	XShape      []int           `json:"x_shape"`
	MeanShape   []int           `json:"mean_shape"`
	Mean        []float32       `json:"mean"`
}

// goldenConfigs are the cases of vae.json by name.
var goldenConfigs = []string{"one_layer", "two_layers"}

func readGolden(t testing.TB, name string) (Config, goldenCase) {
	t.Helper()
	var c goldenCase
	nntest.Decode(t, nntest.Golden(t, "../../testdata/golden/vae.json")[name], &c)
	cfg, err := ParseConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	return cfg, c
}

// requested returns the tensors that a configuration asks for.
func requested(t testing.TB, cfg Config) map[string][]int {
	t.Helper()
	names := nn.ShapesOnly()
	if _, err := Load(cfg, names); err != nil {
		t.Fatal(err)
	}
	return names.Requested()
}

// hashed loads an autoencoder whose weights are the hash of their names.
func hashed(t testing.TB, cfg Config, be kernels.Backend) *Model {
	t.Helper()
	m, err := Load(cfg, nn.NewWeights(be, nntest.File(t, requested(t, cfg))))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// decode returns the pixels of z (N, c, h, w) as (N, H, W, 3).
func decode(t testing.TB, be kernels.Backend, m *Model, z []float32, shape []int) []float32 {
	t.Helper()
	defer be.Scope()()
	latents := be.Alloc(kernels.F32, shape...)
	be.Upload(latents, z)
	out, err := m.Decode(be, latents)
	if err != nil {
		t.Fatal(err)
	}
	pixels := make([]float32, out.Len())
	if err := be.Download(pixels, out); err != nil {
		t.Fatal(err)
	}
	return pixels
}

// encode returns the mean (N, c, h, w) of images x given as (N, 3, H, W).
func encode(t testing.TB, be kernels.Backend, m *Model, x []float32, shape []int) []float32 {
	t.Helper()
	defer be.Scope()()
	images := be.Alloc(kernels.F32, shape...)
	be.Upload(images, x)
	out, err := m.Encode(be, images.Permute(0, 2, 3, 1))
	if err != nil {
		t.Fatal(err)
	}
	mean := make([]float32, out.Len())
	if err := be.Download(mean, out); err != nil {
		t.Fatal(err)
	}
	return mean
}

func TestDecodeMatchesDiffusers(t *testing.T) {
	for _, name := range goldenConfigs {
		cfg, c := readGolden(t, name)
		be := cpu.New(2)
		pixels := decode(t, be, hashed(t, cfg, be), nntest.Hash("input.z", 1.7, c.ZShape...), c.ZShape)
		got := channelsFirst(pixels, c.PixelsShape)
		var sample []float32
		for i := 0; i < len(got); i += c.Stride {
			sample = append(sample, got[i])
		}
		diff, largest := nntest.MaxDiff(sample, c.Pixels)
		t.Logf("%s: largest difference %.2g of %.3g", name, diff, largest)
		if diff > tolerance {
			t.Errorf("%s: differs by %g from diffusers, want at most %g", name, diff, tolerance)
		}
	}
}

func TestEncodeMatchesDiffusers(t *testing.T) {
	for _, name := range goldenConfigs {
		cfg, c := readGolden(t, name)
		be := cpu.New(2)
		mean := encode(t, be, hashed(t, cfg, be), nntest.Hash("input.x", 1, c.XShape...), c.XShape)
		diff, largest := nntest.MaxDiff(mean, c.Mean)
		t.Logf("%s: largest difference %.2g of %.3g", name, diff, largest)
		if diff > tolerance {
			t.Errorf("%s: differs by %g from diffusers, want at most %g", name, diff, tolerance)
		}
	}
}

// channelsFirst turns (N, H, W, C) into (N, C, H, W), the given shape.
func channelsFirst(x []float32, shape []int) []float32 {
	n, c, area := shape[0], shape[1], shape[2]*shape[3]
	out := make([]float32, len(x))
	for i := range n {
		for p := range area {
			for j := range c {
				out[(i*c+j)*area+p] = x[(i*area+p)*c+j]
			}
		}
	}
	return out
}

// TestFramesAreIndependent: a frame gives the same bits alone and in any batch, on any threads.
func TestFramesAreIndependent(t *testing.T) {
	cfg, _ := readGolden(t, "one_layer")
	one := cpu.New(1)
	m := hashed(t, cfg, one)
	const n, h, w = 3, 2, 3
	z := nntest.Hash("frames", 1.7, n, 4, h, w)
	together := decode(t, one, m, z, []int{n, 4, h, w})
	frame := len(together) / n
	for i := range n {
		alone := decode(t, one, m, z[i*4*h*w:][:4*h*w], []int{1, 4, h, w})
		if !slices.Equal(alone, together[i*frame:][:frame]) {
			t.Errorf("frame %d: other bits alone than in the batch", i)
		}
	}
	for _, threads := range []int{2, 8} {
		if !slices.Equal(decode(t, cpu.New(threads), m, z, []int{n, 4, h, w}), together) {
			t.Errorf("other bits on %d threads", threads)
		}
	}
	x := nntest.Hash("pixels", 1, 2, 3, 16, 24)
	means := encode(t, one, m, x, []int{2, 3, 16, 24})
	alone := encode(t, cpu.New(8), m, x[len(x)/2:], []int{1, 3, 16, 24})
	if !slices.Equal(alone, means[len(means)/2:]) {
		t.Error("encode: other bits alone than in the batch")
	}
}

// TestOldAttentionNames loads the same weights under the names and shapes of older files.
func TestOldAttentionNames(t *testing.T) {
	cfg, c := readGolden(t, "one_layer")
	be := cpu.New(1)
	z := nntest.Hash("input.z", 1.7, c.ZShape...)
	want := decode(t, be, hashed(t, cfg, be), z, c.ZShape)
	for _, as4D := range []bool{false, true} {
		tensors := map[string]safetensors.Tensor{}
		for name, shape := range requested(t, cfg) {
			tensor := nntest.Tensor(nntest.Weight(name, shape...), shape...)
			tensors[oldName(name)] = tensor
			if oldName(name) != name && len(shape) == 2 && as4D {
				tensor.Shape = append(slices.Clone(shape), 1, 1)
				tensors[oldName(name)] = tensor
			}
		}
		m, err := Load(cfg, nn.NewWeights(be, nntest.Encode(t, tensors)))
		if err != nil {
			t.Fatalf("4D %v: %v", as4D, err)
		}
		if !slices.Equal(decode(t, be, m, z, c.ZShape), want) {
			t.Errorf("4D %v: other pixels under the old names", as4D)
		}
	}
}
