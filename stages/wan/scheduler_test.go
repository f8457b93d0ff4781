package wan

import (
	"encoding/json"
	"errors"
	"testing"

	"latentbeam/stages"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/diffuse/sampler"
	"latentbeam/stages/nn/nntest"
)

// TestSchedulerInKeys: settings of a model's scheduler are in the key if they differ from the common default, and options of
// the job override them.
func TestSchedulerInKeys(t *testing.T) {
	key := func(scheduler, text string) string {
		t.Helper()
		var decoded any
		o := func(into any) error { decoded = into; return optionsOf(t, text)(into) }
		config, err := json.Marshal(DefaultConfig())
		if err != nil {
			t.Fatal(err)
		}
		configs := dit.Configs{Config: config, Index: stages.Index{ClassName: PipelineName}, Solvers: []sampler.Solver{twice}}
		if scheduler != "" {
			configs.Scheduler = []byte(scheduler)
		}
		if _, err := Denoiser().Open(configs, o); err != nil {
			t.Fatal(err)
		}
		out, err := json.Marshal(decoded)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	const unipc = `{"_class_name": "UniPCMultistepScheduler", "use_flow_sigmas": true, "prediction_type": "flow_prediction", ` +
		`"flow_shift": `
	for _, c := range [][3]string{
		{"", "", `{"cfg_channel":0,"dtype":"fp32"}`},
		{unipc + "3}", "", `{"cfg_channel":0,"dtype":"fp32"}`},
		{unipc + "5}", "", `{"cfg_channel":0,"dtype":"fp32","flow_shift":5}`},
		{`{"_class_name": "DPMSolverMultistepScheduler", "flow_shift": 5.0, "lambda_min_clipped": -Infinity}`, "flow_solver: unipc",
			`{"cfg_channel":0,"dtype":"fp32","flow_solver":"unipc","flow_shift":5}`},
		{unipc + "5}", "flow_shift: 8", `{"cfg_channel":0,"dtype":"fp32","flow_shift":8}`},
		{`{"_class_name": "FlowMatchEulerDiscreteScheduler", "shift": 5}`, "", `{"cfg_channel":0,"dtype":"fp32","flow_solver":"euler","flow_shift":5}`},
		{"", "sampler: {name: euler, shift: 5}", `{"cfg_channel":0,"dtype":"fp32","flow_solver":"euler","flow_shift":5}`},
		{unipc + "5}", "sampler: {shift: 8}", `{"cfg_channel":0,"dtype":"fp32","flow_shift":8}`},
		{unipc + "5}", "sampler: {name: twice}", `{"cfg_channel":0,"dtype":"fp32","sampler":{"name":"twice","shift":5},"flow_shift":5}`},
	} {
		if got := key(c[0], c[1]); got != c[2] {
			t.Errorf("%s with %q: the key has %s, want %s", c[0], c[1], got, c[2])
		}
	}
}

// twice is a solver of another module.
var twice = sampler.Solver{Name: "twice", Process: sampler.FlowMatching, Recipe: func(c sampler.Choice) (sampler.Recipe, error) {
	if *c.Shift > 9 {
		return sampler.Recipe{}, errors.New("shift is too large")
	}
	return sampler.Recipe{NumInferenceSteps: 7, Method: sampler.WanConfig{Solver: "euler", Shift: *c.Shift}}, nil
}}

// TestSamplerOption: a solver from another module is found by its name and uses the model's guidance; an error names what is
// wrong.
func TestSamplerOption(t *testing.T) {
	for text, want := range map[string]string{
		"sampler: {name: twice}":                       "",
		"sampler: {name: twice, shift: 10}":            "sampler twice: shift is too large",
		"sampler: {name: heun}":                        `sampler has the name "heun": Wan has unipc, euler, dmd, twice`,
		"sampler: {name: euler}\nflow_shift: 5":        "sampler and flow_solver, flow_sigmas or flow_shift are given",
		"sampler: {prediction_type: epsilon}":          "sampler has prediction_type: Wan takes sigmas, shift",
		"sampler: {name: twice, shift: 0}":             "flow_shift is 0: give a number above 0",
		"sampler: {name: dmd, sigmas: wan, shift: 12}": "flow_sigmas is wan: dmd has a table of its own",
	} {
		d, err := open(DefaultConfig(), published{solvers: []sampler.Solver{twice}}, optionsOf(t, text))
		nntest.WantError(t, text, err, want)
		if want == "" && (d.recipe.NumInferenceSteps != 7 || d.recipe.GuidanceScale != 5) {
			t.Errorf("%s: %+v", text, d.recipe)
		}
	}
}
