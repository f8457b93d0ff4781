package vae

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/stages"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/weights/safetensors"
)

// tolerance against the reference in fp32, absolute on values of some units.
const tolerance = 1e-4

// slack is how many spreads of the reference a 16-bit result may be away from it.
const slack = 1.5

// goldenCase is a case of open-sora-vae.json; its "_about" says what the fields are.
type goldenCase struct {
	Config       json.RawMessage `json:"config"`
	DType        string          `json:"dtype"`
	XShape       []int           `json:"x_shape"`       // (C, T, H, W)
	LatentsShape []int           `json:"latents_shape"` // (C, T', h, w)
	PixelsShape  []int           `json:"pixels_shape"`  // (C, T, H, W)
	// The spreads of 16-bit cases are how far the reference is from itself, as a relative root mean square,
	// with other convolution and attention kernels of PyTorch: with another order of its sums; in fp16, where it has no
	// others, from itself in fp32.
	MeanSpread   float64   `json:"mean_spread"`
	SampleSpread float64   `json:"sample_spread"`
	PixelsSpread float64   `json:"pixels_spread"`
	MeanStride   int       `json:"mean_stride"`
	Mean         []float32 `json:"mean"`
	SampleStride int       `json:"sample_stride"`
	Sample       []float32 `json:"sample"`
	PixelsStride int       `json:"pixels_stride"`
	Pixels       []float32 `json:"pixels"`
}

// goldenCases are the cases of whole autoencoders of the committed file, and of the one that
// LATENTBEAM_GOLDEN names.
func goldenCases(t testing.TB) map[string]goldenCase {
	t.Helper()
	const path = "../../testdata/golden/open-sora-vae.json"
	all := nntest.Golden(t, path)
	maps.Copy(all, nntest.OpenSora(t, path))
	cases := map[string]goldenCase{}
	for name, data := range all {
		if strings.HasPrefix(name, "vae_") && !strings.HasPrefix(name, "vae_temporal_") {
			var c goldenCase
			nntest.Decode(t, data, &c)
			// The class of Open-Sora takes 0.18215 whatever config.json says, which is 0.13025 here.
			c.Config = bytes.Replace(c.Config, []byte(`"scaling_factor":0.13025`), []byte(`"scaling_factor":0.18215`), 1)
			cases[name] = c
		}
	}
	return cases
}

func (c goldenCase) config(t testing.TB) Config {
	t.Helper()
	cfg, err := ParseConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	cfg.DType = dtypes[c.DType]
	return cfg
}

// hashedTensors are weights that are the hash of their names, but for the shift and scale of Open-Sora 1.2's,
// which are those of its config.
func hashedTensors(t testing.TB, cfg Config) map[string]safetensors.Tensor {
	t.Helper()
	tensors := map[string]safetensors.Tensor{}
	for name, shape := range nntest.Shapes(t, cfg, Load) {
		values := nntest.Weight(name, shape...)
		if strings.HasSuffix(name, ".gamma") {
			for i := range values {
				values[i]++
			}
		}
		tensors[name] = nntest.Tensor(values, shape...)
	}
	if p, ok := cfg.arch.(*openSora12Config); ok {
		tensors["shift"] = nntest.Tensor(p.Shift, tensors["shift"].Shape...)
		tensors["scale"] = nntest.Tensor(p.ScaleBy, tensors["scale"].Shape...)
	}
	return tensors
}

// hashed loads an autoencoder with hashedTensors.
func hashed(t testing.TB, cfg Config, be kernels.Backend) *Model {
	t.Helper()
	return nntest.Loaded(t, be, cfg, Load, nntest.Encode(t, hashedTensors(t, cfg)))
}

// decode returns the pixels (C, T, H, W) of z, the hash of its shape.
func decode(t testing.TB, be kernels.Backend, m *Model, shape []int, frames, micro int) []float32 {
	t.Helper()
	z := &stages.Array{Shape: shape, Data: nntest.Hash("input.z", 1.7, shape...)}
	for i := range z.Data {
		z.Data[i] = m.DType.Round(m.DType.Round(z.Data[i]) / float32(m.Scale))
	}
	return channelsFirst(decodeArray(t, be, m, z, frames, micro)).Data
}

// encode returns the latents (C, T', h, w) that denoisers have of x (3, T, H, W), the hash of its shape.
func encode(t testing.TB, be kernels.Backend, m *Model, shape []int, micro int, draw Noise) []float32 {
	t.Helper()
	x := framesLast(&stages.Array{Shape: shape, Data: nntest.Hash("input.x", 1, shape...)}) // (T, H, W, 3)
	raw, err := m.Encode(be, videoOf(x), micro, draw)
	if err != nil {
		t.Fatal(err)
	}
	z, err := m.ForDenoiser(be, raw)
	if err != nil {
		t.Fatal(err)
	}
	return z.Data
}

// hashedNoise is the noise of the golden cases: a latent's hash by its step.
func (c goldenCase) hashedNoise() Noise {
	frame := slices.Clone(c.LatentsShape)
	frame[0], frame[1] = 4, c.XShape[1] // of the 2D autoencoder
	noise := map[uint32][]float32{
		FrameNoise: nntest.Hash("noise.frames", 1.7, frame...),
		VideoNoise: nntest.Hash("noise.video", 1.7, c.LatentsShape...),
	}
	return func(dst []float32, step uint32, offset uint64) { copy(dst, noise[step][offset:]) }
}

func TestMatchesReference(t *testing.T) {
	for name, c := range goldenCases(t) {
		t.Run(name, func(t *testing.T) {
			be := cpu.New(2)
			m := hashed(t, c.config(t), be)
			shape, err := m.LatentShape(c.XShape[1], c.XShape[2], c.XShape[3])
			if err != nil || !slices.Equal(shape, c.LatentsShape) {
				t.Fatalf("latents have shape %v, want %v, %v", shape, c.LatentsShape, err)
			}
			mean, sample := encode(t, be, m, c.XShape, 3, nil), encode(t, be, m, c.XShape, 3, c.hashedNoise())
			pixels := decode(t, be, m, c.LatentsShape, c.PixelsShape[1], 3)
			c.check(t, "mean", mean, c.MeanStride, c.Mean, c.MeanSpread)
			c.check(t, "sample", sample, c.SampleStride, c.Sample, c.SampleSpread)
			c.check(t, "pixels", pixels, c.PixelsStride, c.Pixels, c.PixelsSpread)
		})
	}
}

// check compares every stride-th value with the golden ones: in fp32 the largest difference, in 16 bit the
// relative root mean square.
func (c goldenCase) check(
	t *testing.T, what string, got []float32, stride int, want []float32, spread float64,
) {
	t.Helper()
	thin := every(got, stride)
	if len(thin) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(thin), len(want))
	}
	diff, largest := nntest.MaxDiff(thin, want)
	rms := nntest.RelativeRMS(thin, want)
	t.Logf("%s: largest difference %.2g of %.3g, relative rms %.2g, the reference's own %.2g", what, diff,
		largest, rms, spread)
	if spread == 0 && diff > tolerance*max(1, largest) {
		t.Errorf("%s differs by %g from the reference, want at most %g", what, diff, tolerance)
	}
	if spread > 0 && !(rms <= slack*spread) {
		t.Errorf("%s: relative rms %g, want at most %g times the reference's own spread %g", what, rms, slack,
			spread)
	}
}
