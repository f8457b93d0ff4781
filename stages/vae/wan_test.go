package vae

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"latentbeam/internal/transport"
	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/kernels/kerneltest"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/nn"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/safetensors"
	"latentbeam/stages/sequence"
	"latentbeam/stages/vae/wan"
	"latentbeam/stages/weight"
)

// The tolerance against diffusers in fp32, absolute on values of some units, and how many times its own distance from
// fp32 a result in bf16 may be away on average over the cases: a case alone has few values.
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
	ratios := map[string][]float64{}
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
				ratios[w.what] = append(ratios[w.what], rms/w.spread)
			}
		})
	}
	for what, all := range ratios {
		sum := 0.0
		for _, r := range all {
			sum += r
		}
		if mean := sum / float64(len(all)); !(mean <= wanSlack) {
			t.Errorf("%s in bf16: %g times as far from fp32 as the reference's, want at most %g", what, mean, wanSlack)
		} else {
			t.Logf("%s in bf16: %.2f times as far from fp32 as the reference's", what, mean)
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

// TestWanSameBits: any number of threads gives the same bits, and so does a device that works late.
func TestWanSameBits(t *testing.T) {
	cases := wanCases(t)
	for _, name := range []string{"wan21_9frames_odd", "wan21_17frames", "wan22_9frames"} {
		for _, dt := range []string{"fp32", "bf16"} {
			c := cases[name]
			one := cpu.New(1)
			m := wanModel(t, c, dt, one)
			pixels := decode(t, one, m, c.LatentsShape, c.PixelsShape[1], 1)
			latents := encode(t, one, m, c.XShape, 1, wanNoise(c))
			for what, be := range map[string]kernels.Backend{"2 threads": cpu.New(2), "8 threads": cpu.New(8),
				"a late device": kerneltest.Deferred(cpu.New(2))} {
				if what == "a late device" {
					m = wanModel(t, c, dt, be)
				}
				if !slices.Equal(decode(t, be, m, c.LatentsShape, c.PixelsShape[1], 4), pixels) {
					t.Errorf("%s in %s: decode: other bits on %s", name, dt, what)
				}
				if !slices.Equal(encode(t, be, m, c.XShape, 4, wanNoise(c)), latents) {
					t.Errorf("%s in %s: encode: other bits on %s", name, dt, what)
				}
			}
		}
	}
}

// TestWanIsCausal: the first frames of a clip are, bit for bit, those of a shorter one, in both directions; so chunks
// and what is remembered between them cannot be seen.
func TestWanIsCausal(t *testing.T) {
	cases := wanCases(t)
	for _, name := range []string{"wan21_17frames", "wan22_17frames"} {
		c := cases[name]
		be := cpu.New(2)
		m := wanModel(t, c, "fp32", be)
		z := &stages.Array{Shape: c.LatentsShape, Data: nntest.Hash("input.z", 1.7, c.LatentsShape...)}
		whole := decodeArray(t, be, m, z, 17, 1)
		x := framesLast(&stages.Array{Shape: c.XShape, Data: nntest.Hash("input.x", 1, c.XShape...)})
		latents, err := m.Encode(be, 17, c.XShape[2], c.XShape[3], 1, nil, source(x))
		if err != nil {
			t.Fatal(err)
		}
		for n := 1; n < 5; n++ {
			frames := 4*n - 3
			part := decodeArray(t, be, m, framesOf(z, 0, n), frames, 1)
			if !slices.Equal(part.Data, whole.Data[:len(part.Data)]) {
				t.Errorf("%s: %d frames are other than the first of 17", name, frames)
			}
			short, err := m.Encode(be, frames, c.XShape[2], c.XShape[3], 1, nil, source(x))
			if err != nil || !slices.Equal(short.Data, framesOf(latents, 0, n).Data) {
				t.Errorf("%s: latents of %d frames are other than the first of 17, %v", name, frames, err)
			}
		}
	}
}

// TestWanMemory: what a device needs does not grow with the clip, and grows with its size.
func TestWanMemory(t *testing.T) {
	for name, c := range map[string]*wan.Config{"2.1": wan.New(), "2.2": wan.NewTI2V5B()} {
		cfg, err := ParseConfig([]byte(publishedWan(t, c)))
		if err != nil {
			t.Fatal(err)
		}
		for what, bytes := range map[string]func(frames, height, width, micro int) (int64, error){
			"decode": cfg.DecodeBytes, "encode": cfg.EncodeBytes} {
			one, _ := bytes(1, 480, 832, 1)
			nine, err := bytes(9, 480, 832, 1)
			long, _ := bytes(801, 480, 832, 4)
			wide, _ := bytes(9, 480, 1664, 1)
			if err != nil || one <= 0 || nine <= one || long != nine || wide < 2*nine-nine/50 {
				t.Errorf("%s %s: %d, %d, %d, %d bytes for 1, 9, 801 frames and twice the width, %v", name, what, one, nine,
					long, wide, err)
			}
			t.Logf("%s %s: %.2f GiB at 480x832", name, what, float64(nine)/(1<<30))
		}
		m, err := Load(cfg, weight.ShapesOnly())
		if err != nil {
			t.Fatal(err)
		}
		z := stages.NewArray(m.arch.(*WanConfig).ZDim, 2, 4, 4)
		twice, err := nn.PeakBytes(func(be kernels.Backend) error {
			for range 2 {
				if err := m.Decode(be, z, 5, 1, func([]float32) {}); err != nil {
					return err
				}
			}
			return nil
		})
		if once, _ := cfg.DecodeBytes(5, 4*cfg.Downscale(), 4*cfg.Downscale(), 1); err != nil || once != twice {
			t.Errorf("%s: %d bytes for one clip, %d for one after another, %v", name, once, twice, err)
		}
	}
}

// TestWanSets: frames are the same however many devices decode them.
func TestWanSets(t *testing.T) {
	cases := wanCases(t)
	for _, k := range []struct {
		name   string
		dt     string
		frames int
	}{{"wan21_1frame", "fp32", 1}, {"wan21_9frames_odd", "fp32", 9}, {"wan21_9frames_odd", "bf16", 5}, {"wan22_9frames", "fp32", 9},
		{"wan22_9frames", "bf16", 5}} {
		c := cases[k.name]
		c.DType = k.dt
		cfg := c.config(t)
		s := stageOf(t, cfg)
		d := cfg.Downscale()
		row := schemas.PromptRow{NumFrames: k.frames, Height: 5 * d, Width: 3 * d, FPS: 16}
		shape, err := cfg.LatentShape(row.NumFrames, row.Height, row.Width)
		if err != nil {
			t.Fatal(err)
		}
		if s.Width(&row) != 0 {
			t.Errorf("%s: a set has %d devices", k.name, s.Width(&row))
		}
		elements := func() (out []*stages.Element) {
			for i := range 2 {
				z := &stages.Array{Shape: shape, Data: nntest.Hash(fmt.Sprint("z", i), 1.7, shape...)}
				out = append(out, &stages.Element{Latents: z, LatentScale: 1, Row: row})
			}
			return out
		}
		want := elements()
		if err := s.Run(t.Context(), cpu.New(1), want); err != nil {
			t.Fatal(err)
		}
		alone := elements()[1:]
		if err := s.Run(t.Context(), cpu.New(1), alone); err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(alone[0].Frames.Frames, want[1].Frames.Frames, slices.Equal) {
			t.Errorf("%s: other frames alone than in a batch", k.name)
		}
		for _, speeds := range [][]float64{sequence.Equal(2), sequence.Equal(3), {1, 0.02, 3}, sequence.Equal(7)} {
			set := &stages.Set{Speeds: speeds, Connect: func(context.Context) ([]kernels.Transport, error) {
				return transport.Shared(len(speeds)), nil
			}}
			for range speeds {
				set.Devices = append(set.Devices, cpu.New(1))
			}
			got := elements()
			if err := s.RunSet(t.Context(), set, got); err != nil {
				t.Fatalf("%s over %v: %v", k.name, speeds, err)
			}
			for i, e := range got {
				if e.Frames == nil || !slices.EqualFunc(e.Frames.Frames, want[i].Frames.Frames, slices.Equal) ||
					e.Frames.Width != row.Width || e.Frames.Height != row.Height {
					t.Errorf("%s in %s over %v: element %d has other frames", k.name, k.dt, speeds, i)
				}
			}
		}
	}
}

// movie writes a y4m file of even sides whose pixels are the hash of their places, but for its last lost bytes, and returns
// its path.
func movie(t *testing.T, frames, height, width, lost int) string {
	t.Helper()
	size := height * width * 3 / 2
	data := fmt.Appendf(nil, "YUV4MPEG2 W%d H%d F8:1\n", width, height)
	for i := range frames {
		data = append(data, "FRAME\n"...)
		for _, v := range nntest.Hash(fmt.Sprint("frame", i), 1, size) {
			data = append(data, byte(128+100*v))
		}
	}
	path := filepath.Join(t.TempDir(), "movie.y4m")
	if err := os.WriteFile(path, data[:len(data)-lost], 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestEncodeSets: latents are the same however many devices encode a clip, and rows whose file cannot be read, or whose
// latents are known, keep nobody waiting.
func TestEncodeSets(t *testing.T) {
	cases := wanCases(t)
	maps.Copy(cases, planCases(t))
	for _, k := range []struct {
		name, dt    string
		frames, odd int
		sample      bool
	}{{"wan21_9frames_odd", "fp32", 9, 2, true}, {"wan21_9frames_odd", "bf16", 5, 0, false}, {"wan22_9frames", "fp32", 5, 0, false},
		{"wan22_9frames", "bf16", 9, 0, true}, {"wf_9frames", "fp32", 9, 0, false}} {
		c := cases[k.name]
		c.DType = k.dt
		cfg := c.config(t)
		row := schemas.PromptRow{NumFrames: k.frames, Height: 5*cfg.Downscale() + k.odd, Width: 3 * cfg.Downscale(), FPS: 8,
			Seed: new(int64)}
		good := movie(t, row.NumFrames, row.Height, row.Width, 0)
		elements := func() (out []*stages.Element) {
			for _, path := range []string{good, good + ".gone", good, movie(t, row.NumFrames, row.Height, row.Width, 9)} {
				row := row
				row.Media = path
				out = append(out, &stages.Element{Row: row})
			}
			return out
		}
		stage := func() *encodeStage { return &encodeStage{stageOf(t, cfg).Component, 1, k.sample, false, &recent{}} }
		want, s := elements(), stage()
		if s.Width(&row) != 0 {
			t.Errorf("%s: a set has %d devices", k.name, s.Width(&row))
		}
		if err := s.Run(t.Context(), cpu.New(1), want); err != nil || want[0].Failed != nil || want[1].Failed == nil ||
			want[3].Failed == nil {
			t.Fatal(err, want[0].Failed, want[1].Failed, want[3].Failed)
		}
		for _, speeds := range [][]float64{sequence.Equal(2), sequence.Equal(3), {0.01, 0.02, 3}, sequence.Equal(5), sequence.Equal(7)} {
			got := elements()
			if err := stage().RunSet(t.Context(), setOf(speeds), got); err != nil {
				t.Fatalf("%s over %v: %v", k.name, speeds, err)
			}
			for i, e := range got {
				if (e.Failed == nil) != (want[i].Failed == nil) {
					t.Errorf("%s over %v: element %d failed with %v, alone %v", k.name, speeds, i, e.Failed, want[i].Failed)
				} else if e.Failed == nil && !slices.Equal(e.Latents.Data, want[i].Latents.Data) {
					t.Errorf("%s in %s over %v: element %d has other latents", k.name, k.dt, speeds, i)
				}
			}
		}
	}
}

// publishedWan is the config.json of a published autoencoder, as diffusers writes it.
func publishedWan(t *testing.T, c *wan.Config) string {
	t.Helper()
	data, err := json.Marshal(struct {
		ClassName string `json:"_class_name"`
		*wan.Config
	}{"AutoencoderKLWan", c})
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestWanPublished: the published sizes have as many tensors and parameters as diffusers' modules. A checkpoint of them
// needs no config.json, and what does not fit is named.
func TestWanPublished(t *testing.T) {
	for _, c := range []struct {
		config              *wan.Config
		title               string
		tensors, parameters int
		some                map[string][]int
	}{
		{wan.New(), "autoencoder of Wan 2.1 (causal 3D, 16 latent channels)", 194, 126_892_531, map[string][]int{
			"encoder.down_blocks.8.time_conv.weight": {384, 384, 3, 1, 1}, "decoder.up_blocks.1.resnets.0.conv_shortcut.bias": {384},
			"decoder.up_blocks.0.upsamplers.0.resample.1.weight": {192, 384, 3, 3}, "decoder.mid_block.attentions.0.norm.gamma": {384, 1, 1},
			"encoder.mid_block.attentions.0.to_qkv.weight": {1152, 384}, "decoder.norm_out.gamma": {96, 1, 1, 1}}},
		{wan.NewTI2V5B(), "autoencoder of Wan 2.2 (causal 3D, 48 latent channels)", 196, 704_688_668, map[string][]int{
			"encoder.down_blocks.1.downsampler.time_conv.weight": {320, 320, 3, 1, 1}, "decoder.conv_out.weight": {12, 256, 3, 3, 3},
			"decoder.up_blocks.0.upsampler.resample.1.weight": {1024, 1024, 3, 3}, "quant_conv.bias": {96}}},
	} {
		w := weight.ShapesOnly()
		name, err := Family().Load([]byte(publishedWan(t, c.config)), w)
		if err != nil || name != c.title {
			t.Fatalf("%q, %v", name, err)
		}
		var infos []safetensors.TensorInfo
		parameters := 0
		for name, shape := range w.Requested() {
			if strings.Contains(name, "attentions.0.") && strings.HasSuffix(name, ".weight") {
				shape = append(shape, 1, 1) // published as convolutions
			}
			infos = append(infos, safetensors.TensorInfo{Name: name, DType: "F32", Shape: shape})
			n := 1
			for _, d := range shape {
				n *= d
			}
			parameters += n
		}
		if len(infos) != c.tensors || parameters != c.parameters {
			t.Errorf("%s: %d tensors of %d parameters, want %d of %d", name, len(infos), parameters, c.tensors, c.parameters)
		}
		for name, shape := range c.some {
			if got := w.Requested()[name]; !slices.Equal(got, shape) {
				t.Errorf("%s: shape %v, want %v", name, got, shape)
			}
		}
		config, err := Family().Guess(weight.ShapesOf(infos))
		if err != nil {
			t.Fatal(err)
		}
		guessed, err := ParseConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		read, _ := ParseConfig([]byte(publishedWan(t, c.config)))
		if a, b := guessed.arch.(*WanConfig), read.arch.(*WanConfig); !slices.Equal(a.DimMult, b.DimMult) ||
			!slices.Equal(a.LatentsStd, b.LatentsStd) || !slices.Equal(a.TemporalDownsample, b.TemporalDownsample) ||
			a.NumResBlocks != b.NumResBlocks || a.ZDim != b.ZDim {
			t.Errorf("%s: guessed %+v, want %+v", name, a, b)
		}
		gone := infos[0].Name
		infos[0] = safetensors.TensorInfo{Name: "stranger", DType: "F32", Shape: []int{1}}
		outline := weight.Outline(infos)
		if _, err := Load(read, outline); err == nil || !strings.Contains(err.Error(), gone) ||
			!strings.Contains(err.Error(), "stranger") {
			t.Errorf("%s without %s: %v", name, gone, err)
		}
	}
}

// TestWanChecks: what a row or a config.json says wrong is named.
func TestWanChecks(t *testing.T) {
	one, _ := ParseConfig([]byte(publishedWan(t, wan.New())))
	two, _ := ParseConfig([]byte(publishedWan(t, wan.NewTI2V5B())))
	for _, c := range []struct {
		cfg                   Config
		frames, height, width int
		shape                 []int
		says                  string
	}{
		{one, 81, 480, 832, []int{16, 21, 60, 104}, ""}, {one, 1, 487, 833, []int{16, 1, 60, 104}, ""},
		{two, 121, 704, 1280, []int{48, 31, 44, 80}, ""},
		{one, 80, 480, 832, nil, "num_frames is 80: this autoencoder takes 1 frame and any multiple of 4 more, such as 77"},
		{one, 0, 480, 832, nil, "num_frames is 0: give 1 or more"}, {one, 5, 7, 832, nil, "height is 7: give 8 to 16384 pixels"},
		{two, 5, 488, 832, nil, "height is 488: give a multiple of 16"}, {two, 5, 480, 840, nil, "width is 840: give a multiple of 16"},
	} {
		shape, err := c.cfg.LatentShape(c.frames, c.height, c.width)
		nntest.WantError(t, fmt.Sprint(c.frames, c.height, c.width), err, c.says)
		if !slices.Equal(shape, c.shape) {
			t.Errorf("%d frames of %dx%d: %v, want %v", c.frames, c.height, c.width, shape, c.shape)
		}
	}
	for config, says := range map[string]string{
		`{}`:                      "",
		`{"z_dim": 8}`:            "latents_mean and latents_std have 16 and 16 entries, z_dim is 8",
		`{"attn_scales": [0.5]}`:  "attn_scales is [0.5], only [] is supported",
		`{"base_dim": 0}`:         "base_dim is 0",
		`{"patch_size": 2}`:       "in_channels and out_channels are 3 and 3, patch_size 2 makes them 12",
		`{"dim_mult": [1, 2, 4]}`: "give 2 entries for dim_mult [1 2 4], two of them true",
		`{"temperal_downsample": [true, true, true]}`:        "two of them true",
		`{"is_residual": true, "dim_mult": [3, 1, 1, 16]}`:   "a shortcut of the encoder cannot make",
		`{"latents_std": [0,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}`: "latents_std[0] is 0, must be positive",
		`{"base_dim": 1, "dim_mult": [1, 1, 1, 1]}`:          "base_dim 1 is too small",
	} {
		_, err := ParseConfig([]byte(strings.Replace(config, "{", `{"_class_name": "AutoencoderKLWan", `, 1)))
		if config == "{}" {
			_, err = ParseConfig([]byte(`{"_class_name": "AutoencoderKLWan"}`))
		}
		nntest.WantError(t, config, err, says)
		if err != nil && !strings.HasPrefix(err.Error(), "vae config.json: ") {
			t.Errorf("%s: %v", config, err)
		}
	}
	row := schemas.PromptRow{NumFrames: 9, Height: 16, Width: 16, Loop: 2, ConditionFrameLength: 1}
	if err := (&decodeStage{&weight.Component[Config, Model]{Config: one}, 1}).Check(&row); err == nil {
		t.Error("a video of several clips is taken")
	}
}

// TestWanBytes: a pixel becomes a byte as diffusers writes videos, cut off and not rounded.
func TestWanBytes(t *testing.T) {
	cfg, _ := ParseConfig([]byte(publishedWan(t, wan.New())))
	src := []float32{-1, -1.5, 1, 2, 0, 0.999, -0.9961, -0.99, float32(math.NaN())}
	want := []byte{0, 0, 255, 255, 127, 254, 0, 1, 0}
	got := make([]byte, len(src))
	if err := cfg.bytes(got, src); err == nil || !strings.Contains(err.Error(), "value 8 ") || !slices.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
}
