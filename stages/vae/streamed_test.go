package vae

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/stages"
	"latentbeam/stages/nn"
	"latentbeam/stages/nn/nntest"
)

// streamedCases are those of wan-vae.json and of osplan-vae.json, which testdata/make_goldens.py makes by running the
// reference's modules.
func streamedCases(t testing.TB) map[string]goldenCase {
	t.Helper()
	all := nntest.Golden(t, "../../testdata/golden/wan-vae.json")
	maps.Copy(all, nntest.Golden(t, "../../testdata/golden/osplan-vae.json"))
	delete(all, "_about")
	cases := map[string]goldenCase{}
	for name, data := range all {
		var c goldenCase
		nntest.Decode(t, data, &c)
		cases[name] = c
	}
	return cases
}

// as loads the case's model for activations of type dt.
func (c goldenCase) as(t testing.TB, dt string, be kernels.Backend) *Model {
	t.Helper()
	c.DType = dt
	return hashed(t, c.config(t), be)
}

// oneNoise is the noise of the golden samples.
func (c goldenCase) oneNoise() Noise {
	noise := nntest.Hash("noise", 1.7, c.LatentsShape...)
	return func(dst []float32, _ uint32, offset uint64) { copy(dst, noise[offset:]) }
}

// TestStreamedMatchesReference: encoding and decoding of 1 to 57 frames, in fp32 value by value. In bf16 latents and pixels of
// each autoencoder are on average at most 1.2 times as far from fp32 as those of the reference in bf16. Latents of a case
// are 16 to 240 numbers, so a single case may be twice as far.
func TestStreamedMatchesReference(t *testing.T) {
	const tolerance, slack, single = 1e-5, 1.2, 2
	ratios := map[string][]float64{}
	cases := streamedCases(t)
	if len(cases) < 12 {
		t.Fatalf("%d cases", len(cases))
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			be := cpu.New(2)
			exact, half := c.as(t, "fp32", be), c.as(t, "bf16", be)
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
				{"sample", func(m *Model) []float32 { return encode(t, be, m, c.XShape, 1, c.oneNoise()) }, c.SampleStride,
					c.Sample, c.SampleSpread},
				{"pixels", func(m *Model) []float32 { return decode(t, be, m, c.LatentsShape, c.PixelsShape[1], 1) },
					c.PixelsStride, c.Pixels, c.PixelsSpread},
			} {
				diff, largest := nntest.MaxDiff(every(w.get(exact), w.stride), w.want)
				rms := nntest.RelativeRMS(every(w.get(half), w.stride), w.want)
				t.Logf("%s: largest difference %.2g of %.3g; in bf16 relative RMS %.3g, the reference's own %.3g", w.what,
					diff, largest, rms, w.spread)
				if !(diff <= tolerance*largest) {
					t.Errorf("%s differs by %g from the reference, want at most %g", w.what, diff, tolerance*largest)
				}
				if !(rms > 1e-4 && rms <= single*w.spread) {
					t.Errorf("%s: relative RMS %g to fp32, the reference's bf16 has %g", w.what, rms, w.spread)
				}
				kind, _, _ := strings.Cut(name, "_")
				ratios[kind+" "+w.what] = append(ratios[kind+" "+w.what], rms/w.spread)
			}
		})
	}
	for what, all := range ratios {
		sum := 0.0
		for _, r := range all {
			sum += r / float64(len(all))
		}
		t.Logf("%s in bf16: %.2f of the reference's distance, at most %.2f, %d cases", what, sum, slices.Max(all), len(all))
		if !(sum <= slack) {
			t.Errorf("%s in bf16: %g times as far from fp32 as the reference's", what, sum)
		}
	}
}

// every returns every stride-th of the values.
func every(values []float32, stride int) (out []float32) {
	for i := 0; i < len(values); i += stride {
		out = append(out, values[i])
	}
	return out
}

// TestStreamedIsCausal: the first frames of a clip equal those of a shorter clip, bit for bit, in both directions. Only the
// last two frames that WF-VAE decodes depend on the latent frame after them, and in a CausalVAE this holds for whole groups.
func TestStreamedIsCausal(t *testing.T) {
	cases := streamedCases(t)
	for _, k := range []struct {
		name    string
		frames  int
		shorter []int
		looking int // number of last frames that depend on later latents
	}{{"wan21_17frames", 17, []int{1, 5, 9, 13}, 0}, {"wan22_17frames", 17, []int{1, 5, 9, 13}, 0},
		{"wf_29frames", 29, []int{1, 5, 9, 13, 25}, 2}, {"wf_other_13frames", 13, []int{1, 5, 9}, 0},
		{"causal_grouped_57frames", 57, []int{29}, 0}} {
		c := cases[k.name]
		be := cpu.New(2)
		m := c.as(t, "fp32", be)
		z := &stages.Array{Shape: c.LatentsShape, Data: nntest.Hash("input.z", 1.7, c.LatentsShape...)}
		whole := decodeArray(t, be, m, z, k.frames, 1)
		x := framesLast(&stages.Array{Shape: c.XShape, Data: nntest.Hash("input.x", 1, c.XShape...)})
		latents, err := m.Encode(be, videoOf(x), 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		size := len(whole.Data) / k.frames
		for _, frames := range k.shorter {
			n := (frames-1)/4 + 1
			part := decodeArray(t, be, m, framesFrom(z, 0, n), frames, 1)
			same := frames
			if n > 1 {
				same -= k.looking
			}
			if !slices.Equal(part.Data[:same*size], whole.Data[:same*size]) {
				t.Errorf("%s: the first %d of %d frames are other than those of %d", k.name, same, frames, k.frames)
			}
			if same < frames && slices.Equal(part.Data, whole.Data[:len(part.Data)]) {
				t.Errorf("%s: the last of %d frames do not depend on the frames after them", k.name, frames)
			}
			clip := videoOf(x)
			clip.Frames = frames
			short, err := m.Encode(be, clip, 1, nil)
			if err != nil || !slices.Equal(short.Data, framesFrom(latents, 0, n).Data) {
				t.Errorf("%s: latents of %d frames are other than the first of %d, %v", k.name, frames, k.frames, err)
			}
		}
	}
}

// TestStreamedMemory: after the first chunks, the memory of a device does not grow with the length of the clip, nor from one
// clip to the next. It grows with the size of the frames.
func TestStreamedMemory(t *testing.T) {
	for name, most := range map[string]int{"Wan2.1-VAE": 9, "Wan2.2-VAE": 9, "WF-VAE": 9, "CausalVAE": 29} {
		cfg := published(t, name)
		for what, bytes := range map[string]func(frames, height, width, micro int) (int64, error){
			"decode": cfg.DecodeBytes, "encode": cfg.EncodeBytes} {
			one, _ := bytes(1, 480, 832, 1)
			chunk, err := bytes(most, 480, 832, 1)
			long, _ := bytes(801, 480, 832, 4)
			wide, _ := bytes(most, 480, 1664, 1)
			if err != nil || one <= 0 || chunk <= one || long != chunk || wide < 2*chunk-chunk/50 {
				t.Errorf("%s %s: %d, %d, %d, %d bytes for 1, %d, 801 frames and twice the width, %v", name, what, one, chunk,
					long, wide, most, err)
			}
			t.Logf("%s %s: %.2f GiB at 480x832", name, what, float64(chunk)/(1<<30))
		}
		side := 4 * cfg.Downscale()
		m, shape, err := cfg.outline(5, side, side)
		if err != nil {
			t.Fatal(err)
		}
		twice, err := nn.PeakBytes(func(be kernels.Backend) error {
			for range 2 {
				if err := m.Decode(be, stages.NewArray(shape...), 5, 1, func([]float32) {}); err != nil {
					return err
				}
			}
			return nil
		})
		if once, _ := cfg.DecodeBytes(5, side, side, 1); err != nil || once != twice {
			t.Errorf("%s: %d bytes for one clip, %d for one after another, %v", name, once, twice, err)
		}
	}
}
