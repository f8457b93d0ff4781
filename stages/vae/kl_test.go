package vae

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/stages"
	"latentbeam/stages/nn/nntest"
	klvae "latentbeam/stages/vae/kl"
	"latentbeam/stages/weights"
	"latentbeam/stages/weights/safetensors"
)

// klCase is a case of vae.json: only AutoencoderKL of diffusers, its latents unchanged.
type klCase struct {
	Config      json.RawMessage `json:"config"`
	ZShape      []int           `json:"z_shape"` // (N, c, h, w)
	PixelsShape []int           `json:"pixels_shape"`
	Stride      int             `json:"stride"`
	Pixels      []float32       `json:"pixels"`
	XShape      []int           `json:"x_shape"` // (N, 3, H, W)
	MeanShape   []int           `json:"mean_shape"`
	Mean        []float32       `json:"mean"`
}

// TestMatchesDiffusers decodes the images of a case as the frames of a video.
func TestMatchesDiffusers(t *testing.T) {
	for name, data := range nntest.Golden(t, "../../testdata/golden/vae.json") {
		var c klCase
		nntest.Decode(t, data, &c)
		cfg, err := ParseConfig(c.Config)
		if err != nil {
			t.Fatal(err)
		}
		be := cpu.New(2)
		m := hashed(t, cfg, be)
		z := images("input.z", 1.7, c.ZShape)
		model, err := m.ForDenoiser(be, z)
		if err != nil || m.network.normalize(be, z) != nil {
			t.Fatal(err)
		}
		size := len(z.Data) / c.ZShape[1]
		for i, raw := range images("input.z", 1.7, c.ZShape).Data {
			if want := (float64(raw) - cfg.Mean[i/size]) / cfg.Std[i/size]; math.Abs(float64(model.Data[i])-want) > 1e-6*(1+math.Abs(want)) {
				t.Fatalf("%s: value %d of a denoiser is %g, want %g", name, i, model.Data[i], want)
			}
		}
		if want := cfg.arch.(*klConfig).ScalingFactor; name != "channel_statistics" && cfg.Std[0] != 1/want || cfg.Scale != want {
			t.Errorf("%s: std %g, scale %g, want those of scaling_factor %g", name, cfg.Std[0], cfg.Scale, want)
		}
		pixels := decodeArray(t, be, m, z, c.ZShape[0], 2)
		got := swapped(channelsFirst(pixels))
		golden := goldenCase{}
		golden.check(t, name+": pixels", got, c.Stride, c.Pixels, 0)
		x := framesLast(images("input.x", 1, c.XShape))
		raw, err := m.Encode(be, videoOf(x), 2, nil)
		if err != nil {
			t.Fatal(err)
		}
		golden.check(t, name+": mean", swapped(raw), 1, c.Mean, 0)
	}
}

// images returns the hash of (N, c, h, w) as a video (c, N, h, w).
func images(name string, amp float64, shape []int) *stages.Array {
	a := &stages.Array{Shape: shape, Data: nntest.Hash(name, amp, shape...)}
	return &stages.Array{Shape: []int{shape[1], shape[0], shape[2], shape[3]}, Data: swapped(a)}
}

// swapped returns the data of a (A, B, h, w) in the order (B, A, h, w).
func swapped(a *stages.Array) []float32 {
	n, c, area := a.Shape[0], a.Shape[1], a.Shape[2]*a.Shape[3]
	out := make([]float32, 0, len(a.Data))
	for j := range c {
		for i := range n {
			out = append(out, a.Data[(i*c+j)*area:][:area]...)
		}
	}
	return out
}

// TestTiny runs the decoder of the built-in model against diffusers, from its files.
func TestTiny(t *testing.T) {
	const dir = "../../testdata/tiny/vae/"
	cfg, err := ParseConfig(nntest.Read(t, dir+"config.json"))
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		ScalingFactor float32   `json:"scaling_factor"`
		OutShape      []int     `json:"out_shape"`
		Out           []float32 `json:"out"`
	}
	nntest.Decode(t, nntest.Golden(t, "../../testdata/golden/tiny.json")["vae_decode"], &c)
	be := cpu.New(2)
	m, err := Load(cfg, weights.NewWeights(be, nntest.Open(t, dir+"diffusion_pytorch_model.safetensors")))
	if err != nil {
		t.Fatal(err)
	}
	f := cfg.Downscale()
	z := images("input.z", 1, []int{c.OutShape[0], 4, c.OutShape[2] / f, c.OutShape[3] / f})
	for i := range z.Data {
		z.Data[i] /= c.ScalingFactor
	}
	golden := goldenCase{}
	golden.check(t, "pixels", swapped(channelsFirst(decodeArray(t, be, m, z, c.OutShape[0], 4))), 1, c.Out, 0)
}

// oldName returns the name that files written before diffusers 0.15 give a tensor.
func oldName(name string) string {
	for today, old := range klvae.Spellings {
		name = strings.Replace(name, ".attentions.0."+today+".", ".attentions.0."+old+".", 1)
	}
	return name
}

// TestOldAttentionNames loads the same weights under the names and shapes of older files, of both
// architectures that have the 2D autoencoder.
func TestOldAttentionNames(t *testing.T) {
	cases := goldenCases(t)
	for _, name := range []string{"vae_kl_fp32", "vae_v1_2_1frames_fp32"} {
		c, ok := cases[name]
		if !ok {
			t.Fatalf("no case %s", name)
		}
		cfg := c.config(t)
		be := cpu.New(1)
		frames := c.PixelsShape[1]
		want := decode(t, be, hashed(t, cfg, be), c.LatentsShape, frames, 1)
		for _, as4D := range []bool{false, true} {
			tensors := hashedTensors(t, cfg)
			renamed := map[string]safetensors.Tensor{}
			for name, tensor := range tensors {
				if old := oldName(name); old != name && len(tensor.Shape) == 2 && as4D {
					tensor.Shape = append(slices.Clone(tensor.Shape), 1, 1)
				}
				renamed[oldName(name)] = tensor
			}
			m, err := Load(cfg, weights.NewWeights(be, nntest.Encode(t, renamed)))
			if err != nil {
				t.Fatalf("%s, 4D %v: %v", name, as4D, err)
			}
			if !slices.Equal(decode(t, be, m, c.LatentsShape, frames, 1), want) {
				t.Errorf("%s, 4D %v: other pixels under the old names", name, as4D)
			}
		}
	}
}

func TestRGB24(t *testing.T) {
	nan := float32(math.NaN())
	cfg := published(t, "sd-vae-ft-ema")
	src := []float32{-2, -1, -0.998, 0, 0.9999, 1, 7, nan, float32(math.Inf(1)), float32(math.Inf(-1))}
	want := []byte{0, 0, 0, 128, 255, 255, 255, 0, 255, 0}
	got := make([]byte, len(src))
	if err := cfg.RGB24(got, src); err == nil || !strings.Contains(err.Error(), "value 7 ") {
		t.Errorf("a NaN: %v", err)
	}
	if err := cfg.RGB24(got[:7], src[:7]); err != nil {
		t.Error(err)
	}
	for i := range src {
		if got[i] != want[i] {
			t.Errorf("RGB24(%g) = %d, want %d", src[i], got[i], want[i])
		}
	}
}

// TestTruncatedBytes: a pixel of Wan is truncated to a byte, not rounded, as diffusers writes videos.
func TestTruncatedBytes(t *testing.T) {
	src := []float32{-1, -1.5, 1, 2, 0, 0.999, -0.9961, -0.99, float32(math.NaN())}
	want := []byte{0, 0, 255, 255, 127, 254, 0, 1, 0}
	got := make([]byte, len(src))
	if err := published(t, "Wan2.1-VAE").RGB24(got, src); err == nil || !strings.Contains(err.Error(), "value 8 ") ||
		!slices.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
}

// decodeArray returns the pixels (T, H, W, 3) of z (C, T', h, w).
func decodeArray(
	t testing.TB, be kernels.Backend, m *Model, z *stages.Array, frames, micro int,
) *stages.Array {
	t.Helper()
	out := &stages.Array{Shape: []int{frames, z.Shape[2] * m.Downscale(), z.Shape[3] * m.Downscale(), 3}}
	err := m.Decode(be, z, frames, micro, func(p []float32) { out.Data = append(out.Data, p...) })
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// videoOf is the clip of the frames of x (T, H, W, 3).
func videoOf(x *stages.Array) Video {
	size := x.Shape[1] * x.Shape[2] * x.Shape[3]
	return Video{x.Shape[0], x.Shape[1], x.Shape[2], func(dst []float32, first, n int) error {
		copy(dst, x.Data[first*size:(first+n)*size])
		return nil
	}}
}

// channelsFirst turns (T, h, w, C) into (C, T, h, w).
func channelsFirst(z *stages.Array) *stages.Array {
	t, h, w, c := z.Shape[0], z.Shape[1], z.Shape[2], z.Shape[3]
	out := stages.NewArray(c, t, h, w)
	for i, v := range z.Data {
		out.Data[i%c*t*h*w+i/c] = v
	}
	return out
}

// framesFrom returns n frames of latents (C, T, h, w).
func framesFrom(z *stages.Array, from, n int) *stages.Array {
	last := framesLast(z)
	size := len(last.Data) / last.Shape[0]
	last.Shape[0], last.Data = n, last.Data[from*size:][:n*size]
	return channelsFirst(last)
}
