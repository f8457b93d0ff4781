package osplan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/kernels/kerneltest"
	"latentbeam/stages"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/weights"
)

// goldenCase is one forward of testdata/golden/osplan.json.
type goldenCase struct {
	Config    json.RawMessage
	Tensors   int
	Shape     []int // (B, c, T, H, W)
	Box       []int // size of the latents that contain these; nil: none
	Lens      []int // of the texts
	Timesteps []float32
	RMS       float64 // of the reference in bf16
	Out       []float32
}

func goldens(t testing.TB) map[string]goldenCase {
	t.Helper()
	out := map[string]goldenCase{}
	for name, data := range nntest.Golden(t, "../../testdata/golden/osplan.json") {
		var c goldenCase
		nntest.Decode(t, data, &c)
		out[name] = c
	}
	return out
}

// eachGolden runs a test for every case.
func eachGolden(t *testing.T, test func(t *testing.T, c goldenCase)) {
	cases := goldens(t)
	if len(cases) == 0 {
		t.Fatal("no cases")
	}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(name, func(t *testing.T) { test(t, cases[name]) })
	}
}

// TestGolden runs the network against the project's own: both versions, images, sizes whose number of tokens is not a
// multiple of 16, boxes with masked tokens, and texts of several lengths, whose padding the reference masks.
func TestGolden(t *testing.T) {
	eachGolden(t, func(t *testing.T, c goldenCase) {
		got := c.run(t, cpu.New(2), "fp32")
		diff, largest := nntest.MaxDiff(got, c.Out)
		t.Logf("largest difference %.2g of %.3g", diff, largest)
		if !(diff <= 1e-5*largest) {
			t.Errorf("differs by %g from the reference", diff)
		}
		if late := c.run(t, kerneltest.Deferred(cpu.New(1)), "fp32"); !slices.Equal(late, got) {
			t.Error("other bytes where work is deferred")
		}
	})
}

// TestGoldenBF16: in bf16 the network is about as far from the reference in fp32 as the reference in bf16 is.
func TestGoldenBF16(t *testing.T) {
	eachGolden(t, func(t *testing.T, c goldenCase) {
		got := c.run(t, cpu.New(2), "bf16")
		rms := nntest.RelativeRMS(got, c.Out)
		t.Logf("relative RMS %.2g, PyTorch's %.2g", rms, c.RMS)
		if !(rms > 1e-4 && rms <= 1.2*c.RMS) {
			t.Errorf("relative RMS %g, PyTorch's bf16 has %g", rms, c.RMS)
		}
		if late := c.run(t, kerneltest.Deferred(cpu.New(1)), "bf16"); !slices.Equal(late, got) {
			t.Error("other bytes where work is deferred, or by one thread")
		}
	})
}

// TestBoxChangesNothingDense: without sparse blocks, a row in a box has the bytes of a row without a box.
func TestBoxChangesNothingDense(t *testing.T) {
	for name, same := range map[string]bool{"v12_box": true, "v13_box": false} {
		c := goldens(t)[name]
		inBox := c.run(t, cpu.New(2), "fp32")
		if c.Box = nil; slices.Equal(c.run(t, cpu.New(2), "fp32"), inBox) != same {
			t.Errorf("%s: the bytes are those without a box: %v, want %v", name, !same, same)
		}
	}
}

func (c *goldenCase) config(t testing.TB) Config {
	t.Helper()
	cfg, err := ParseConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// options are those of the stage.
func (c *goldenCase) options(dtype string) string {
	text := "dtype: " + dtype
	if c.Box != nil {
		text += fmt.Sprintf(", padded_box: [%d, %d, %d]", c.Box[0], c.Box[1], c.Box[2])
	}
	return "{" + text + "}"
}

// run returns the result of the network for the case.
func (c *goldenCase) run(t testing.TB, be kernels.Backend, dtype string) []float32 {
	t.Helper()
	defer be.Scope()()
	d, err := open(c.config(t), published{}, optionsOf(t, c.options(dtype)))
	if err != nil {
		t.Fatal(err)
	}
	shapes := nntest.Shapes(t, d.Config, Load)
	if len(shapes) != c.Tensors {
		t.Errorf("%d tensors, want %d", len(shapes), c.Tensors)
	}
	m, err := Load(d.Config, weights.NewWeights(be, nntest.File(t, shapes)))
	if err != nil {
		t.Fatal(err)
	}
	rows := &dit.Rows{Size: dit.LatentSize{T: c.Shape[2], H: c.Shape[3], W: c.Shape[4]}}
	for i, n := range c.Lens {
		rows.Rows = append(rows.Rows, dit.BatchRow{Element: &stages.Element{Text: &stages.Text{Embedding: textOf(d, "text", i, n)}}})
	}
	description := d.Describe()
	evaluate, err := description.Evaluator(be, m, rows)
	if err != nil {
		t.Fatal(err)
	}
	x, err := evaluate(t.Context(), nntest.Hash("input.x", 1.7, c.Shape...), c.Timesteps, nil)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(x)
}

func textOf(d *denoiser, name string, i, n int) *stages.Array {
	return &stages.Array{Shape: []int{n, d.TextWidth}, Data: nntest.Hash(fmt.Sprint(name, ".", i), 1, n, d.TextWidth)}
}
