package stdit

import (
	"encoding/json"
	"testing"

	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/diffuse/sampler"
	"latentbeam/stages/nn/nntest"
)

// TestDType: the default is that of the published configurations, and stating it does not change the key.
func TestDType(t *testing.T) {
	for _, c := range []struct {
		version Version
		dtype   string
		want    kernels.DType
		key     string
	}{
		{OpenSora10, "", kernels.F32, ""},
		{OpenSora10, "fp32", kernels.F32, ""},
		{OpenSora10, "bf16", kernels.BF16, "bf16"},
		{OpenSora10, "fp16", kernels.F16, "fp16"},
		{OpenSora11, "", kernels.BF16, ""},
		{OpenSora12, "bf16", kernels.BF16, ""},
		{OpenSora13, "fp32", kernels.F32, "fp32"},
	} {
		cfg := DefaultConfig(c.version)
		recipe, err := sampler.OpenSora(c.version.String())
		if err != nil {
			t.Fatal(err)
		}
		o := options{Options: dit.Options{GuidedChannels: recipe.GuidedChannels, DType: c.dtype}}
		if err := o.check(&cfg, recipe); err != nil || cfg.DType != c.want || o.DType != c.key {
			t.Errorf("%s with dtype %q: %v, %v, key %q", c.version, c.dtype, cfg.DType, err, o.DType)
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, c := range []struct {
		version Version
		json    string
		want    string
	}{
		{OpenSora10, `{"dtype":"int8"}`, `dtype is "int8": give fp32, bf16, or with Open-Sora 1.0 fp16`},
		{OpenSora12, `{"dtype":"fp16"}`, "dtype is fp16: Open-Sora 1.2 was published for bf16"},
		{OpenSora10, `{"space_scale":0.5,"time_scale":2}`, ""},
		{OpenSora10, `{"space_scale":-1}`, "space_scale is -1: give a number above 0"},
		{OpenSora11, `{"time_scale":1}`, "time_scale is 1: only Open-Sora 1.0 has it"},
		{OpenSora10, `{"cfg_channel":5}`, "cfg_channel is 5: give 1 to 4"},
		{OpenSora10, `{"frame_interval":3}`, "only from Open-Sora 1.1 on"},
		{OpenSora11, `{"frame_interval":-1}`, "frame_interval is -1"},
		{OpenSora11, `{"frame_interval":3,"cfg_channel":4}`, ""},
		{OpenSora12, `{"cfg_channel":3}`, "guides all channels"},
	} {
		cfg := DefaultConfig(c.version)
		recipe, err := sampler.OpenSora(c.version.String())
		if err != nil {
			t.Fatal(err)
		}
		o := options{Options: dit.Options{GuidedChannels: recipe.GuidedChannels}}
		if err := json.Unmarshal([]byte(c.json), &o); err != nil {
			t.Fatal(err)
		}
		nntest.WantError(t, c.version.String()+" "+c.json, o.check(&cfg, recipe), c.want)
	}
}

// TestScales: the scales of a preset override those of the model, and are not in the key if both are equal.
func TestScales(t *testing.T) {
	recipe, err := sampler.OpenSora("1.0")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ space, time, wantSpace, wantTime, keySpace, keyTime float64 }{
		{0, 0, 0.5, 1, 0, 0}, {0.5, 1, 0.5, 1, 0, 0}, {1, 2.0 / 3, 1, 2.0 / 3, 1, 2.0 / 3},
	} {
		cfg := DefaultConfig(OpenSora10)
		cfg.SpaceScale = 0.5
		o := options{Options: dit.Options{GuidedChannels: recipe.GuidedChannels}, SpaceScale: c.space, TimeScale: c.time}
		if err := o.check(&cfg, recipe); err != nil || cfg.SpaceScale != c.wantSpace || cfg.TimeScale != c.wantTime ||
			o.SpaceScale != c.keySpace || o.TimeScale != c.keyTime {
			t.Errorf("%+v: scales %g and %g, in the key %g and %g, %v", c, cfg.SpaceScale, cfg.TimeScale, o.SpaceScale,
				o.TimeScale, err)
		}
	}
}

// TestVersionIsThatOfTheJob: a model of another version than the job states is refused.
func TestVersionIsThatOfTheJob(t *testing.T) {
	for version, want := range map[string]string{"": "", "1.2": "",
		"1.3": `version is "1.3", but the model is of Open-Sora 1.2: give the job that model, or the preset of this one ` +
			`(opensora-v1.2-...)`} {
		cfg := DefaultConfig(OpenSora12)
		recipe, err := sampler.OpenSora("1.2")
		if err != nil {
			t.Fatal(err)
		}
		nntest.WantError(t, version, (&options{Version: version}).check(&cfg, recipe), want)
	}
}

// TestLatentSize: published sizes, and sizes that have no latents.
func TestLatentSize(t *testing.T) {
	for _, c := range []struct {
		version               Version
		frames, height, width int
		want                  dit.LatentSize
		err                   string
	}{
		{OpenSora10, 16, 256, 256, sizeOf(16, 32, 32), ""},
		{OpenSora10, 16, 250, 256, dit.LatentSize{}, "height is 250: give a multiple of 16, such as 256"},
		{OpenSora11, 16, 240, 426, sizeOf(16, 30, 53), ""},
		{OpenSora11, 1, 7, 8, dit.LatentSize{}, "height is 7 and width 8"},
		{OpenSora12, 51, 240, 426, sizeOf(15, 30, 53), ""},
		{OpenSora12, 1, 720, 1280, sizeOf(1, 90, 160), ""},
		{OpenSora12, 408, 720, 1280, sizeOf(120, 90, 160), ""},
		{OpenSora12, 20, 240, 426, sizeOf(6, 30, 53), ""},
		{OpenSora13, 1, 360, 640, sizeOf(1, 45, 80), ""},
		{OpenSora13, 49, 240, 426, sizeOf(15, 30, 54), ""},
		{OpenSora13, 113, 720, 1280, sizeOf(35, 90, 160), ""},
		{OpenSora13, 16, 720, 1280, dit.LatentSize{}, "num_frames is 16"},
		{OpenSora11, 5000, 240, 426, dit.LatentSize{}, "too large"},
	} {
		row := &schemas.PromptRow{NumFrames: c.frames, Height: c.height, Width: c.width}
		cfg := DefaultConfig(c.version)
		err := cfg.checkSize(row)
		nntest.WantError(t, c.version.String(), err, c.err)
		if got := cfg.latentSize(row); c.err == "" && got != c.want {
			t.Errorf("%s: %d frames of %dx%d have latents %v, want %v",
				c.version, c.frames, c.width, c.height, got, c.want)
		}
	}
}

// TestParams: the frame rate is in the keys of those versions that use it.
func TestParams(t *testing.T) {
	for v := OpenSora10; v <= OpenSora13; v++ {
		d, err := open(DefaultConfig(v), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(d.Describe().Params) > 0; got != (v != OpenSora10) {
			t.Errorf("%s depends on the frame rate: %v", v, got)
		}
		row := &schemas.PromptRow{NumFrames: 1, FPS: 8}
		if got := frameRate(row, 3); got != ImageFPS {
			t.Errorf("an image has frame rate %g", got)
		}
		row.NumFrames = 2
		if got := frameRate(row, 3); got != 24 {
			t.Errorf("every third frame at 8 a second is %g", got)
		}
	}
}
