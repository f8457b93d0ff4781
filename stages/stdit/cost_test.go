package stdit

import (
	"math"
	"testing"

	"latentbeam/schemas"
	"latentbeam/stages/cost"
	"latentbeam/stages/diffuse/dit"
)

// The FLOP of a step of STDiT3-XL/2 under guidance with 300 tokens of text, from the shapes of its layers,
// for the sizes of Open-Sora 1.2.
func TestCostOfSTDiT3(t *testing.T) {
	cfg, err := ParseConfig([]byte(`{"model_type": "STDiT3", "depth": 28, "hidden_size": 1152, "num_heads": 16,
		"caption_channels": 4096, "model_max_length": 300, "qk_norm": true}`))
	if err != nil {
		t.Fatal(err)
	}
	guidance := 7.0
	for _, c := range []struct {
		frames, height, width int
		step                  float64 // TFLOP
	}{
		{51, 512, 512, 0}, {51, 720, 1280, 0}, {102, 720, 1280, 567.4}, {408, 720, 1280, 2280},
	} {
		row := schemas.PromptRow{Height: c.height, Width: c.width, NumFrames: c.frames, NumInferenceSteps: 30,
			GuidanceScale: &guidance}
		got, err := workOf(cfg, &row)
		if err != nil {
			t.Fatal(err)
		}
		step := float64(got.Split.Pairs) * got.Split.Shape.Total(got.Split.Costs)
		if c.step > 0 && math.Abs(step/1e12-c.step) > 0.01*c.step {
			t.Errorf("%+v: %.1f TFLOP a step, want %.1f", c, step/1e12, c.step)
		}
		if got.Split.Costs.Local < 0 || got.Work < 30*step {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}

// workOf is the work of a network on a row.
func workOf(cfg Config, row *schemas.PromptRow) (cost.Estimate, error) {
	return dit.Work(&denoiser{Config: cfg}, row, nil)
}
