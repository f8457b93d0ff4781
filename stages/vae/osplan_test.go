package vae

import (
	"slices"
	"testing"

	"latentbeam/kernels/cpu"
	"latentbeam/stages/nn/nntest"
)

// planCases are those of osplan-vae.json, which testdata/make_goldens.py makes by running the reference's modules.
func planCases(t testing.TB) map[string]goldenCase {
	t.Helper()
	cases := map[string]goldenCase{}
	for name, data := range nntest.Golden(t, "../../testdata/golden/osplan-vae.json") {
		if name == "_about" {
			continue
		}
		var c goldenCase
		nntest.Decode(t, data, &c)
		cases[name] = c
	}
	return cases
}

// TestPlanMatchesReference: encoding and decoding of 1 to 57 frames by both autoencoders of Open-Sora-Plan.
func TestPlanMatchesReference(t *testing.T) {
	cases := planCases(t)
	if len(cases) < 6 {
		t.Fatalf("%d cases", len(cases))
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			be := cpu.New(2)
			m := wanModel(t, c, "fp32", be)
			shape, err := m.LatentShape(c.XShape[1], c.XShape[2], c.XShape[3])
			if err != nil || !slices.Equal(shape, c.LatentsShape) {
				t.Fatalf("latents have shape %v, want %v, %v", shape, c.LatentsShape, err)
			}
			for _, w := range []struct {
				what   string
				got    []float32
				stride int
				want   []float32
			}{
				{"mean", encode(t, be, m, c.XShape, 1, nil), c.MeanStride, c.Mean},
				{"sample", encode(t, be, m, c.XShape, 1, wanNoise(c)), c.SampleStride, c.Sample},
				{"pixels", decode(t, be, m, c.LatentsShape, c.PixelsShape[1], 1), c.PixelsStride, c.Pixels},
			} {
				diff, largest := nntest.MaxDiff(every(w.got, w.stride), w.want)
				t.Logf("%s: largest difference %.2g of %.3g", w.what, diff, largest)
				if !(diff <= wanTolerance*largest) {
					t.Errorf("%s differs by %g from the reference, want at most %g", w.what, diff, wanTolerance*largest)
				}
			}
		})
	}
}
