package config

import (
	"fmt"
	"strings"
	"testing"

	"latentbeam/schemas"
)

const presetJob = "version: 1\nmodel: dir\ninput: {prompts: p.csv}\noutput: {path: out}\n"

// TestPresets loads every preset as a whole job.
func TestPresets(t *testing.T) {
	names := map[string]bool{}
	for _, p := range Presets() {
		c := mustParse(t, presetJob+"preset: "+p.Name+"\n")
		row, err := c.Defaults.Row().Sized(schemas.OpenSora)
		if err != nil || row.Height < 100 || row.Width < 100 || row.NumFrames < 1 || row.FPS < 8 ||
			row.NumInferenceSteps < 30 || row.Guidance() < 3.5 || row.MaxSequenceLength < 120 {
			t.Errorf("%s: %+v, %v", p.Name, row, err)
		}
		if n := len(c.Stages); n < 4 || c.Stages[n-3].Name != "denoise" || names[p.Name] {
			t.Errorf("%s: %d stages", p.Name, len(c.Stages))
		}
		names[p.Name] = true
		if !strings.HasPrefix(p.Name, "opensora-") {
			continue
		}
		var options struct {
			Version  string  `yaml:"version"`
			Interval int     `yaml:"frame_interval"`
			Space    float64 `yaml:"space_scale"`
			Time     float64 `yaml:"time_scale"`
		}
		err = c.Stages[len(c.Stages)-3].Options.Decode(&options)
		if err != nil || !strings.HasPrefix(p.Name, "opensora-v"+options.Version+"-") {
			t.Errorf("%s is for version %q, %v", p.Name, options.Version, err)
		}
		want := map[string][2]float64{"opensora-v1.0-16x256x256": {0.5, 1}, "opensora-v1.0-16x512x512": {1, 1},
			"opensora-v1.0-64x512x512": {1, 2.0 / 3}}[p.Name]
		if got := [2]float64{options.Space, options.Time}; got != want {
			t.Errorf("%s scales positions by %v, want %v", p.Name, got, want)
		}
	}
	for _, name := range []string{"opensora-v1.0-16x256x256", "opensora-v1.0-64x512x512", "opensora-v1.1-240p-16f",
		"opensora-v1.2-720p-4s", "opensora-v1.2-144p-16s", "opensora-v1.2-1080p-image", "opensora-v1.3-720p-113f",
		"wan2.1-t2v-1.3b-480p", "wan2.1-t2v-14b-720p", "wan2.2-t2v-a14b-480p", "wan2.2-ti2v-5b-720p", "wan2.2-i2v-a14b-720p",
		"osplan-v1.2-29x480p", "osplan-v1.2-93x480p", "osplan-v1.2-93x720p", "osplan-v1.3-93x640p"} {
		if !names[name] {
			t.Errorf("no preset %s", name)
		}
	}
}

func TestPresetValues(t *testing.T) {
	c := mustParse(t, presetJob+"preset: opensora-v1.2-720p-4s\n")
	row, err := c.Defaults.Row().Sized(schemas.OpenSora)
	if err != nil || row.Height != 720 || row.Width != 1280 || row.NumFrames != 102 || row.NumInferenceSteps != 30 ||
		row.Guidance() != 7 || row.MaxSequenceLength != 300 || row.Aes != "6.5" || row.FPS != 24 {
		t.Errorf("%+v, %v", row, err)
	}
	var options struct {
		Scores string `yaml:"scores"`
	}
	if err := c.Stages[0].Options.Decode(&options); err != nil || options.Scores != "1.2" {
		t.Errorf("encode_text %+v, %v", options, err)
	}
}

// TestPresetOfPlan: presets have the sizes, steps and guidance of Open-Sora-Plan's scripts.
func TestPresetOfPlan(t *testing.T) {
	for name, want := range map[string]string{
		"osplan-v1.2-29x480p": "480x640x29 24 100 7.5", "osplan-v1.2-93x720p": "720x1280x93 24 100 7.5",
		"osplan-v1.3-93x640p": "352x640x93 18 100 7.5",
	} {
		row, err := mustParse(t, presetJob+"preset: "+name+"\n").Defaults.Row().Sized(schemas.OpenSora)
		got := fmt.Sprintf("%dx%dx%d %g %d %g", row.Height, row.Width, row.NumFrames, row.FPS, row.NumInferenceSteps, row.Guidance())
		if err != nil || got != want {
			t.Errorf("%s is %s, %v, want %s", name, got, err, want)
		}
	}
}

// TestPresetOfWan: presets have the sizes, steps, scales and shifts of Wan's models.
func TestPresetOfWan(t *testing.T) {
	for name, want := range map[string]string{
		"wan2.1-t2v-1.3b-480p": "480x832x81 16 50 5 0 3",
		"wan2.1-t2v-14b-720p":  "720x1280x81 16 50 5 0 5",
		"wan2.2-t2v-a14b-720p": "720x1280x81 16 40 4 3 12",
		"wan2.2-ti2v-5b-720p":  "704x1280x121 24 50 5 0 5",
		"wan2.2-i2v-a14b-480p": "480x832x81 16 40 3.5 3.5 5",
		"wan2.1-i2v-14b-720p":  "720x1280x81 16 40 5 0 5",
	} {
		c := mustParse(t, presetJob+"preset: "+name+"\n")
		row := c.Defaults.Row()
		second := 0.0
		if row.GuidanceScale2 != nil {
			second = *row.GuidanceScale2
		}
		var options struct {
			Shift float64 `yaml:"flow_shift"`
		}
		if err := c.Stages[len(c.Stages)-3].Options.Decode(&options); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%dx%dx%d %v %d %v %v %v", row.Height, row.Width, row.NumFrames, row.FPS, row.NumInferenceSteps,
			row.Guidance(), second, options.Shift); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

// TestScalesOfPreset: a preset gives each of two denoisers its own scale. A job that gives only guidance_scale uses it for both.
func TestScalesOfPreset(t *testing.T) {
	const two = presetJob + "preset: wan2.2-t2v-a14b-480p\n"
	for text, want := range map[string]string{
		two: "4 3 false", two + "defaults: {guidance_scale: 5}\n": "5 0 false", two + "defaults: {guidance_scale_2: 5}\n": "4 5 true",
		two + "defaults: {guidance_scale: 6, guidance_scale_2: 5}\n": "6 5 true", presetJob: "0 0 false",
		presetJob + "defaults: {guidance_scale_2: null}\n": "0 0 false",
	} {
		c := mustParse(t, text)
		row := c.Defaults.Row()
		second := 0.0
		if row.GuidanceScale2 != nil {
			second = *row.GuidanceScale2
		}
		if got := fmt.Sprint(row.Guidance(), second, c.ScalesApart()); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// TestJobOverridesPreset: the file and flags override each key of the preset.
func TestJobOverridesPreset(t *testing.T) {
	const job = presetJob + "preset: opensora-v1.1-720p-16f\n"
	for _, c := range []struct{ text, set, want string }{
		{"defaults: {num_inference_steps: 50}", "", "720x1280x16 50 4 3"},
		{"defaults: {height: 64, width: 128}", "", "64x128x16 100 4 3"},
		{"defaults: {aspect_ratio: 16:9, num_frames: 2s}", "", "1280x720x51 100 4 3"},
		{"defaults: {resolution: 512, aspect_ratio: 1:1}", "", "512x512x16 100 4 3"},
		{"defaults: {condition_frame_length: 2}", "defaults.resolution=240p_16d", "240x416x16 100 2 3"},
		{"stages: [encode_text, denoise]", "", "720x1280x16 100 4 3"},
		{"stages: [encode_text, denoise: {dtype: fp32}]", "", "720x1280x16 100 4 3"},
		{"stages: [encode_text, denoise: {frame_interval: 1}]", "", "720x1280x16 100 4 1"},
		{"", "stages.denoise.frame_interval=2", "720x1280x16 100 4 2"},
	} {
		var sets []string
		if c.set != "" {
			sets = append(sets, c.set)
		}
		got, err := Parse("job.yaml", job+c.text+"\n", sets)
		if err != nil {
			t.Errorf("%s %s: %v", c.text, c.set, err)
			continue
		}
		row, _ := got.Defaults.Row().Sized(schemas.OpenSora)
		var options struct {
			Version  string `yaml:"version"`
			Interval int    `yaml:"frame_interval"`
			DType    string `yaml:"dtype"`
		}
		for _, stage := range got.Stages {
			if err := stage.Options.Decode(&options); stage.Name == "denoise" && err != nil {
				t.Error(err)
			}
		}
		if s := fmt.Sprintf("%dx%dx%d %d %d %d", row.Height, row.Width, row.NumFrames, row.NumInferenceSteps,
			row.ConditionFrameLength, options.Interval); s != c.want {
			t.Errorf("%s %s: %s, want %s", c.text, c.set, s, c.want)
		}
	}
}
