package vae

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"latentbeam/internal/transport"
	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/kernels/kerneltest"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/sequence"
)

// The tolerance against diffusers in fp32, absolute on values of some units, and how many times its own distance from
// fp32 a result in bf16 may be away.
const (
	wanTolerance = 1e-5
	wanSlack     = 1.2
)

// wanCases are those of wan-vae.json.
func wanCases(t testing.TB) map[string]goldenCase {
	t.Helper()
	cases := map[string]goldenCase{}
	for name, data := range nntest.Golden(t, "../../testdata/golden/wan-vae.json") {
		var c goldenCase
		nntest.Decode(t, data, &c)
		cases[name] = c
	}
	return cases
}

// wanModel loads the case's model for activations of type dt.
func wanModel(t testing.TB, c goldenCase, dt string, be kernels.Backend) *Model {
	t.Helper()
	c.DType = dt
	return hashed(t, c.config(t), be)
}

// wanNoise is the noise of the golden samples.
func wanNoise(c goldenCase) Noise {
	noise := nntest.Hash("noise", 1.7, c.LatentsShape...)
	return func(dst []float32, _ uint32, offset uint64) { copy(dst, noise[offset:]) }
}

// TestWanMatchesDiffusers: encoding and decoding of 1 to 17 frames, in fp32 value by value, in bf16 about as near to
// fp32 as the reference's own bf16 is.
func TestWanMatchesDiffusers(t *testing.T) {
	for name, c := range wanCases(t) {
		t.Run(name, func(t *testing.T) {
			be := cpu.New(2)
			exact, half := wanModel(t, c, "fp32", be), wanModel(t, c, "bf16", be)
			shape, err := exact.LatentShape(c.XShape[1], c.XShape[2], c.XShape[3])
			if err != nil || !slices.Equal(shape, c.LatentsShape) {
				t.Fatalf("latents have shape %v, want %v, %v", shape, c.LatentsShape, err)
			}
			for _, w := range []struct {
				what   string
				get    func(m *Model) []float32
				stride int
				want   []float32
				spread float64
			}{
				{"mean", func(m *Model) []float32 { return encode(t, be, m, c.XShape, 1, nil) }, c.MeanStride, c.Mean, c.MeanSpread},
				{"sample", func(m *Model) []float32 { return encode(t, be, m, c.XShape, 1, wanNoise(c)) }, c.SampleStride,
					c.Sample, c.SampleSpread},
				{"pixels", func(m *Model) []float32 { return decode(t, be, m, c.LatentsShape, c.PixelsShape[1], 1) },
					c.PixelsStride, c.Pixels, c.PixelsSpread},
			} {
				diff, largest := nntest.MaxDiff(every(w.get(exact), w.stride), w.want)
				rms := relativeRMS(every(w.get(half), w.stride), w.want)
				t.Logf("%s: largest difference %.2g of %.3g; in bf16 relative rms %.3g, the reference's own %.3g", w.what,
					diff, largest, rms, w.spread)
				if !(diff <= wanTolerance*max(1, largest)) {
					t.Errorf("%s differs by %g from the reference, want at most %g", w.what, diff, wanTolerance)
				}
				if !(rms <= wanSlack*w.spread) {
					t.Errorf("%s: in bf16 relative rms %g, want at most %g times the reference's %g", w.what, rms, wanSlack,
						w.spread)
				}
			}
		})
	}
}

// every returns every stride-th of the values.
func every(values []float32, stride int) (out []float32) {
	for i := 0; i < len(values); i += stride {
		out = append(out, values[i])
	}
	return out
}

var _ = []any{context.Background, fmt.Sprint, strings.Contains, transport.Shared, kerneltest.Deferred, schemas.PromptRow{}, stages.Alone, sequence.Equal}
