package vae

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
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
	"latentbeam/stages/safetensors"
	"latentbeam/stages/sequence"
	"latentbeam/stages/vae/causal"
	"latentbeam/stages/vae/wf"
	"latentbeam/stages/weight"
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

// TestPlanBF16: in bf16 latents and pixels of each autoencoder are on average at most 1.2 times as far from fp32 as those of
// the reference in bf16. Latents of a case are 16 to 240 numbers, so a single case may be twice as far.
func TestPlanBF16(t *testing.T) {
	const slack, single = 1.2, 2
	ratios := map[string][]float64{}
	for name, c := range planCases(t) {
		be := cpu.New(2)
		m := wanModel(t, c, "bf16", be)
		for _, w := range []struct {
			what   string
			got    []float32
			stride int
			want   []float32
			spread float64
		}{
			{"mean", encode(t, be, m, c.XShape, 1, nil), c.MeanStride, c.Mean, c.MeanSpread},
			{"sample", encode(t, be, m, c.XShape, 1, wanNoise(c)), c.SampleStride, c.Sample, c.SampleSpread},
			{"pixels", decode(t, be, m, c.LatentsShape, c.PixelsShape[1], 1), c.PixelsStride, c.Pixels, c.PixelsSpread},
		} {
			rms := relativeRMS(every(w.got, w.stride), w.want)
			if !(rms > 1e-4 && rms <= single*w.spread) {
				t.Errorf("%s %s: relative RMS %g to fp32, PyTorch's bf16 has %g", name, w.what, rms, w.spread)
			}
			kind, _, _ := strings.Cut(name, "_")
			ratios[kind+" "+w.what] = append(ratios[kind+" "+w.what], rms/w.spread)
		}
	}
	for what, all := range ratios {
		sum := 0.0
		for _, r := range all {
			sum += r / float64(len(all))
		}
		if t.Logf("%s: %.2f of PyTorch's distance, at most %.2f, %d cases", what, sum, slices.Max(all), len(all)); !(sum <= slack) {
			t.Errorf("%s in bf16: %g times as far from fp32 as the reference's", what, sum)
		}
	}
}

// TestPlanStatistics: tables say mean and deviation of each channel. Those of WF-VAE are shift and one over scale.
func TestPlanStatistics(t *testing.T) {
	cases := planCases(t)
	for name, want := range map[string]string{"wf_other_1frames": "[0.5 -0.25 0 1] [2 1 0.5 4]",
		"causal_fixed_1frames": "[0 0 0 0] [5.49 5.49 5.49 5.49]"} {
		c := cases[name]
		c.DType = "fp32"
		space := c.config(t).latentSpace("")
		if got := fmt.Sprintf("%.3g %.3g", space.Mean, space.Std); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// planSets is what the invariance tests go through: case, frames and type.
var planSets = []struct {
	name   string
	frames int
	dt     string
}{{"wf_9frames", 1, "fp32"}, {"wf_29frames", 13, "fp32"}, {"wf_29frames", 13, "bf16"}, {"wf_other_13frames", 5, "fp32"},
	{"causal_fixed_29frames", 1, "fp32"}, {"causal_defaults_9frames", 61, "fp32"}, {"causal_defaults_9frames", 33, "bf16"}}

// TestPlanSameBits: any number of threads gives the same bits, and so does a device that works late.
func TestPlanSameBits(t *testing.T) {
	cases := planCases(t)
	for _, name := range []string{"wf_9frames", "wf_other_13frames", "causal_fixed_5frames", "causal_mixed_9frames",
		"causal_defaults_9frames"} {
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

// TestPlanIsCausal: the first frames of a clip are, bit for bit, those of a shorter one, in both directions. Only the last
// two frames that WF-VAE decodes look at the latent frame behind them, and CausalVAE keeps that law by groups.
func TestPlanIsCausal(t *testing.T) {
	cases := planCases(t)
	for _, k := range []struct {
		name    string
		frames  int
		shorter []int
		looking int // frames that change with what comes behind
	}{{"wf_29frames", 29, []int{1, 5, 9, 13, 25}, 2}, {"wf_other_13frames", 13, []int{1, 5, 9}, 0},
		{"causal_grouped_57frames", 57, []int{29}, 0}} {
		c := cases[k.name]
		be := cpu.New(2)
		m := wanModel(t, c, "fp32", be)
		z := &stages.Array{Shape: c.LatentsShape, Data: nntest.Hash("input.z", 1.7, c.LatentsShape...)}
		whole := decodeArray(t, be, m, z, k.frames, 1)
		x := framesLast(&stages.Array{Shape: c.XShape, Data: nntest.Hash("input.x", 1, c.XShape...)})
		latents, err := m.Encode(be, k.frames, c.XShape[2], c.XShape[3], 1, nil, source(x))
		if err != nil {
			t.Fatal(err)
		}
		size := len(whole.Data) / k.frames
		for _, frames := range k.shorter {
			n := (frames-1)/4 + 1
			part := decodeArray(t, be, m, framesOf(z, 0, n), frames, 1)
			same := frames
			if n > 1 {
				same -= k.looking
			}
			if !slices.Equal(part.Data[:same*size], whole.Data[:same*size]) {
				t.Errorf("%s: the first %d of %d frames are other than those of %d", k.name, same, frames, k.frames)
			}
			if same < frames && slices.Equal(part.Data, whole.Data[:len(part.Data)]) {
				t.Errorf("%s: the last of %d frames do not look at what is behind them", k.name, frames)
			}
			short, err := m.Encode(be, frames, c.XShape[2], c.XShape[3], 1, nil, source(x))
			if err != nil || !slices.Equal(short.Data, framesOf(latents, 0, n).Data) {
				t.Errorf("%s: latents of %d frames are other than the first of %d, %v", k.name, frames, k.frames, err)
			}
		}
	}
}

// TestPlanSets: frames are the same however many devices decode them, alone and in a batch.
func TestPlanSets(t *testing.T) {
	cases := planCases(t)
	for _, k := range planSets {
		c := cases[k.name]
		c.DType = k.dt
		cfg := c.config(t)
		s := stageOf(t, cfg)
		d := cfg.Downscale()
		row := schemas.PromptRow{NumFrames: k.frames, Height: 4 * d, Width: 2 * d, FPS: 16}
		shape, err := cfg.LatentShape(row.NumFrames, row.Height, row.Width)
		if err != nil {
			t.Fatal(err)
		}
		elements := func() (out []*stages.Element) {
			for i := range 2 {
				z := &stages.Array{Shape: shape, Data: nntest.Hash(fmt.Sprint("z", i), 1, shape...)}
				out = append(out, &stages.Element{Latents: z, Row: row})
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
		for _, speeds := range [][]float64{sequence.Equal(1), sequence.Equal(2), sequence.Equal(3), {1, 0.02, 3}, sequence.Equal(5)} {
			got := elements()
			if err := s.RunSet(t.Context(), setOf(speeds), got); err != nil {
				t.Fatalf("%s over %v: %v", k.name, speeds, err)
			}
			for i, e := range got {
				if e.Frames == nil || len(e.Frames.Frames) != k.frames ||
					!slices.EqualFunc(e.Frames.Frames, want[i].Frames.Frames, slices.Equal) {
					t.Errorf("%s, %d frames in %s over %v: element %d has other frames", k.name, k.frames, k.dt, speeds, i)
				}
			}
		}
	}
}

// setOf is a set of devices of this process with the given speeds.
func setOf(speeds []float64) *stages.Set {
	set := &stages.Set{Speeds: speeds, Connect: func(context.Context) ([]kernels.Transport, error) {
		return transport.Shared(len(speeds)), nil
	}}
	for range speeds {
		set.Devices = append(set.Devices, cpu.New(1))
	}
	return set
}

// publishedPlan are the config.json of the autoencoders of Open-Sora-Plan 1.3 and 1.2.
func publishedPlan(t *testing.T) (wavelets, groups string) {
	t.Helper()
	text := func(class string, c any) string {
		data, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf(`{"_class_name": %q, %s`, class, data[1:])
	}
	return text("WFVAEModel", wf.NewPublished()), text("CausalVAEModel", causal.NewPublished())
}

// TestPlanPublished: the published sizes have as many tensors and parameters as the reference's modules. What does not fit
// is named, the filters of the Haar transforms are passed over.
func TestPlanPublished(t *testing.T) {
	wavelets, groups := publishedPlan(t)
	for _, c := range []struct {
		config, title       string
		tensors, parameters int
		some                map[string][]int
		ignored             string
	}{
		{wavelets, "autoencoder of Open-Sora-Plan 1.3 (WF-VAE, 8 latent channels)", 220, 147_347_660, map[string][]int{
			"encoder.down1.3.conv.weight": {128, 128, 3, 3}, "encoder.down2.3.conv.conv.weight": {256, 256, 3, 3, 3},
			"encoder.mid.0.nin_shortcut.conv.weight": {512, 320, 1, 1, 1}, "decoder.up2.2.conv.conv.weight": {512, 512, 3, 3, 3},
			"decoder.up1.2.conv.weight": {256, 256, 3, 3}, "decoder.connect_l1.2.weight": {12, 128, 3, 3},
			"encoder.norm_out.norm.bias": {512}}, "decoder.inverse_wavelet_tranform_l2.gh_v"},
		{groups, "autoencoder of Open-Sora-Plan 1.2 (causal 3D)", 248, 239_189_991, map[string][]int{
			"encoder.conv_in.weight": {128, 3, 3, 3}, "encoder.down.0.downsample.conv.weight": {128, 128, 3, 3},
			"encoder.down.1.downsample.conv.conv.weight": {256, 256, 3, 3, 3}, "decoder.up.1.upsample.conv.conv.weight": {256, 256, 1, 3, 3},
			"decoder.mid.attn_1.proj_out.conv.weight": {512, 512, 1, 1, 1}, "quant_conv.conv.weight": {8, 8, 1, 1, 1}}, "loss.logvar"},
	} {
		w := weight.ShapesOnly()
		name, err := Family().Load([]byte(c.config), w)
		if err != nil || name != c.title {
			t.Fatalf("%q, %v", name, err)
		}
		infos := []safetensors.TensorInfo{{Name: c.ignored, DType: "F32", Shape: []int{1, 1, 2, 2, 2}}}
		parameters := 0
		for name, shape := range w.Requested() {
			infos = append(infos, safetensors.TensorInfo{Name: name, DType: "F32", Shape: shape})
			n := 1
			for _, d := range shape {
				n *= d
			}
			parameters += n
		}
		if len(infos) != c.tensors+1 || parameters != c.parameters {
			t.Errorf("%s: %d tensors of %d parameters, want %d of %d", name, len(infos)-1, parameters, c.tensors, c.parameters)
		}
		for name, shape := range c.some {
			if got := w.Requested()[name]; !slices.Equal(got, shape) {
				t.Errorf("%s: shape %v, want %v", name, got, shape)
			}
		}
		read, err := ParseConfig([]byte(c.config))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Load(read, weight.Outline(infos)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		guessed, err := Family().Guess(weight.ShapesOf(infos))
		if _, ok := read.arch.(*CausalVAEConfig); ok {
			nntest.WantError(t, "a CausalVAE without config.json", err, "put the config.json that it was published with beside it")
		} else if again, failed := ParseConfig(guessed); err != nil || failed != nil || !reflect.DeepEqual(again, read) {
			t.Errorf("%s: guessed %s, %v, %v", name, guessed, err, failed)
		}
		gone := infos[1].Name
		infos[1] = safetensors.TensorInfo{Name: "stranger", DType: "F32", Shape: []int{1}}
		if _, err := Load(read, weight.Outline(infos)); err == nil || !strings.Contains(err.Error(), gone) ||
			!strings.Contains(err.Error(), "stranger") {
			t.Errorf("%s without %s: %v", name, gone, err)
		}
	}
}

// TestPlanMemory: what a device needs does not grow with the clip behind its first chunks, and is about what was planned.
func TestPlanMemory(t *testing.T) {
	wavelets, groups := publishedPlan(t)
	for name, k := range map[string]struct {
		config string
		chunk  int
	}{"WF-VAE": {wavelets, 9}, "CausalVAE": {groups, 29}} {
		cfg, err := ParseConfig([]byte(k.config))
		if err != nil {
			t.Fatal(err)
		}
		for what, bytes := range map[string]func(frames, height, width, micro int) (int64, error){
			"decode": cfg.DecodeBytes, "encode": cfg.EncodeBytes} {
			one, _ := bytes(1, 480, 640, 1)
			chunk, err := bytes(k.chunk, 480, 640, 1)
			long, _ := bytes(801, 480, 640, 4)
			wide, _ := bytes(k.chunk, 480, 1280, 1)
			if err != nil || one <= 0 || chunk <= one || long != chunk || wide < 2*chunk-chunk/50 {
				t.Errorf("%s %s: %d, %d, %d, %d bytes for 1, %d, 801 frames and twice the width, %v", name, what, one, chunk,
					long, wide, k.chunk, err)
			}
			t.Logf("%s %s: %.2f GiB at 480x640", name, what, float64(chunk)/(1<<30))
		}
	}
}

// TestPlanChecks: what a row or a config.json says wrong is named.
func TestPlanChecks(t *testing.T) {
	wavelets, groups := publishedPlan(t)
	for _, config := range []string{wavelets, groups} {
		cfg, _ := ParseConfig([]byte(config))
		for _, c := range []struct {
			frames, height, width int
			says                  string
		}{{93, 480, 640, ""}, {29, 720, 1280, ""}, {28, 480, 640, "num_frames is 28: this autoencoder takes 1 frame and any multiple of 4 more, such as 25"},
			{29, 484, 640, "height is 484: give a multiple of 8"}, {29, 480, 641, "width is 641: give a multiple of 8"}} {
			_, err := cfg.LatentShape(c.frames, c.height, c.width)
			nntest.WantError(t, fmt.Sprint(c.frames, c.height, c.width), err, c.says)
		}
		row := schemas.PromptRow{NumFrames: 9, Height: 16, Width: 16, Loop: 2, ConditionFrameLength: 1}
		if err := (&decodeStage{&weight.Component[Config, Model]{Config: cfg}, 1}).Check(&row); err == nil {
			t.Error("a video of several clips is taken")
		}
	}
	for config, says := range map[string]string{
		`"_class_name": "CausalVAEModel"`:                                                                             "",
		`"_class_name": "WFVAEModel"`:                                                                                 `norm_type is "groupnorm", only "layernorm" is supported`,
		`"_class_name": "WFVAEModel", "norm_type": "layernorm"`:                                                       "",
		`"_class_name": "WFVAEModel", "norm_type": "layernorm", "latent_dim": 16`:                                     "scale and shift have 8 and 8 entries, latent_dim is 16",
		`"_class_name": "WFVAEModel", "norm_type": "layernorm", "scale": [1]`:                                         "scale and shift have 1 and 8 entries",
		`"_class_name": "WFVAEModel", "norm_type": "layernorm", "t_interpolation": 1`:                                 "parse vae config.json",
		`"_class_name": "WFVAEModel", "norm_type": "layernorm", "l1_dowmsample_block": "Spatial2xTime2x3DDownsample"`: `only "Downsample" is supported`,
		`"_class_name": "WFVAEModel", "norm_type": "layernorm", "decoder_energy_flow_hidden_size": 64`:                "connect_l1 and connect_l2 take base_channels, 128",
		`"_class_name": "CausalVAEModel", "encoder_attention": "AttnBlock"`:                                           `encoder_attention holds "AttnBlock", known are "AttnBlock3D", "AttnBlock3DFix"`,
		`"_class_name": "CausalVAEModel", "attn_resolutions": [16]`:                                                   "attn_resolutions is [16], only [] is supported",
		`"_class_name": "CausalVAEModel", "hidden_size": 48`:                                                          "hidden_size_mult[0] is 1, times hidden_size 48 it must be at most 16384 and divisible by 32",
		`"_class_name": "CausalVAEModel", "encoder_resnet_blocks": ["ResnetBlock3D"]`:                                 "encoder_resnet_blocks has 1 entries, hidden_size_mult has 4",
		`"_class_name": "CausalVAEModel", "encoder_temporal_downsample": ["", "", "TimeDownsampleRes2x", ""]`:         `encoder_temporal_downsample holds "TimeDownsampleRes2x", known are "", "TimeDownsample2x"`,
		`"_class_name": "CausalVAEModel", "encoder_temporal_downsample": ["", "", "TimeDownsample2x", ""]`:            "the encoder halves frames 1 times",
	} {
		_, err := ParseConfig([]byte("{" + config + "}"))
		nntest.WantError(t, config, err, says)
	}
}
