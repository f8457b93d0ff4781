package score

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/stages/amt"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/weights/safetensors"
)

// motionGolden are clips of testdata/make_motion.py with VBench's scores, and what its network makes of the frames 0 and 2 of some.
type motionGolden struct {
	clips  []scored
	scales map[string]float64
	parts  []struct {
		Clip, Every         int
		Image, Flow0, Flow1 []float32
	}
}

func readMotion(t *testing.T) (g motionGolden) {
	t.Helper()
	data := nntest.Golden(t, "../../testdata/golden/vbench-motion.json")
	nntest.Decode(t, data["clips"], &g.clips)
	nntest.Decode(t, data["scales"], &g.scales)
	nntest.Decode(t, data["parts"], &g.parts)
	return g
}

// amtValues are the weights of make_motion.py.
func (g motionGolden) amtValues(name string, shape ...int) []float32 {
	var out []float32
	if len(shape) > 1 {
		out = nntest.Hash("amt."+name, math.Sqrt(3/float64(kernels.Elements(shape[1:]))), shape...)
	} else {
		out = nntest.Hash("amt."+name, 0.1, shape...)
		for i := range out {
			if strings.HasSuffix(name, ".weight") {
				out[i] += 0.25
			}
		}
	}
	for part, scale := range g.scales {
		if strings.Contains(name, part) {
			for i := range out {
				out[i] *= float32(scale)
			}
		}
	}
	return out
}

// file writes the weights.
func (g motionGolden) file(t *testing.T) string {
	t.Helper()
	tensors := map[string]safetensors.Tensor{}
	for name, shape := range nntest.Shapes(t, amt.Config{}, amt.Load) {
		tensors[name] = nntest.Tensor(g.amtValues(name, shape...), shape...)
	}
	var out bytes.Buffer
	if err := safetensors.Write(&out, tensors, nil); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "amt-s.safetensors")
	if err := os.WriteFile(name, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestSmoothnessLikeVBench compares scores with VBench's own.
func TestSmoothnessLikeVBench(t *testing.T) {
	g := readMotion(t)
	all, err := openMeasures(&options{By: []string{smoothnessName}, Weights: map[string]string{amtS: g.file(t)}})
	if err != nil {
		t.Fatal(err)
	}
	dev := cpu.New(2)
	var scores []float64
	for _, c := range g.clips {
		scores = append(scores, c.Smoothness)
		if testing.Short() && c.Frames > 6 {
			continue
		}
		got := c.read(t, dev, all)[smoothnessName]
		v, err := strconv.ParseFloat(got, 64)
		if diff := math.Abs(v - c.Smoothness); err != nil || !(diff <= 1e-4*c.Smoothness) {
			t.Errorf("%s %dx%d: %q, %v, want %v", c.Kind, c.Width, c.Height, got, err, c.Smoothness)
		}
		t.Logf("%s %dx%d: %s, VBench %v", c.Kind, c.Width, c.Height, got, c.Smoothness)
		if c.Frames == 3 {
			if again := c.read(t, cpu.New(1), all)[smoothnessName]; again != got {
				t.Errorf("on another number of threads: %s, want %s", again, got)
			}
		}
	}
	if wide := slices.Max(scores) - slices.Min(scores); wide < 1.0/3 {
		t.Errorf("the scores vary by %g alone", wide)
	}
}

// TestFrameBetweenLikeVBench compares the frame between two frames, and the flows to them, before rounding.
func TestFrameBetweenLikeVBench(t *testing.T) {
	g := readMotion(t)
	c, err := openTower(&options{Weights: map[string]string{amtS: g.file(t)}}, amtS, amt.Family(), amt.ParseConfig, amt.Load)
	dev := cpu.New(2)
	net := on(t, dev, c, err)
	every := func(values []float32, n int) (some []float32) {
		for i := 0; i < len(values); i += n {
			some = append(some, values[i])
		}
		return some
	}
	for _, p := range g.parts {
		c := g.clips[p.Clip]
		b, err := net.Interpolate(t.Context(), dev, c.rgb(0), c.rgb(2), c.Height, c.Width)
		if err != nil {
			t.Fatal(err)
		}
		near(t, c.Kind+" flow to the first", every(b.Flows[0], p.Every), p.Flow0)
		near(t, c.Kind+" flow to the second", every(b.Flows[1], p.Every), p.Flow1)
		near(t, c.Kind+" image", every(b.Padded, p.Every), p.Image)
	}
}

// TestSmoothnessOfFew: there is no reading for clips of two frames, or with frames that are too small.
func TestSmoothnessOfFew(t *testing.T) {
	all, err := openMeasures(&options{By: []string{smoothnessName}, Weights: map[string]string{amtS: readMotion(t).file(t)}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []scored{{Kind: "drift", Height: 128, Width: 128, Frames: 2}, {Kind: "drift", Height: 112, Width: 160, Frames: 3}} {
		if got, is := c.read(t, cpu.New(1), all)[smoothnessName]; is {
			t.Errorf("%d frames of %dx%d: %s", c.Frames, c.Width, c.Height, got)
		}
	}
}
