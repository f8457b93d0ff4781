package wan

import (
	"encoding/json"
	"testing"

	"latentbeam/stages"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/diffuse/sampler"
	"latentbeam/stages/nn/nntest"
)

// TestScheduler: the published classes are read, and what is not known of them is refused by name.
func TestScheduler(t *testing.T) {
	const unipc = `"_class_name": "UniPCMultistepScheduler", "use_flow_sigmas": true, "prediction_type": "flow_prediction"`
	const euler = `"_class_name": "FlowMatchEulerDiscreteScheduler"`
	for config, want := range map[string]struct {
		c   sampler.WanConfig
		err string
	}{
		unipc + `, "flow_shift": 5.0, "beta_end": 0.02, "disable_corrector": [], "x": null, "_x": 1`: {c: sampler.WanConfig{
			Solver: "unipc", Shift: 5}},
		unipc:                   {c: sampler.WanConfig{Solver: "unipc", Shift: 1}},
		euler + `, "shift": 8`:  {c: sampler.WanConfig{Solver: "euler", Shift: 8}},
		euler:                   {c: sampler.WanConfig{Solver: "euler", Shift: 1}},
		unipc + `, "shift": 8`:  {err: "has a field shift (8) that is not known"},
		euler + `, "shift": -1`: {err: "shift is -1: give a number above 0"},
		`"_class_name": "UniPCMultistepScheduler", "use_flow_sigmas": true`: {err: "UniPCMultistepScheduler has no prediction_type"},
		unipc + `, "solver_order": 3`: {err: "solver_order of UniPCMultistepScheduler " +
			"is 3, only 2 is supported"},
		unipc + `, "solver_type": "bh1"`:         {err: `solver_type of UniPCMultistepScheduler is "bh1"`},
		unipc + `, "disable_corrector": [0]`:     {err: "disable_corrector of UniPCMultistepScheduler is [0]"},
		unipc + `, "final_sigmas_type": "min"`:   {err: "final_sigmas_type"},
		unipc + `, "use_karras_sigmas": true`:    {err: "use_karras_sigmas"},
		euler + `, "use_dynamic_shifting": true`: {err: "use_dynamic_shifting"},
		euler + `, "num_train_timesteps": 500`:   {err: "num_train_timesteps"},
		`"_class_name": "DDIMScheduler"`:         {err: `names the class "DDIMScheduler"; there are FlowMatchEuler`},
		`"_class_name": "DPMSolverMultistepScheduler", "lambda_min_clipped": -Infinity, "flow_shift": 5.0`: {
			err: `names the class "DPMSolverMultistepScheduler"; there are FlowMatchEulerDiscreteScheduler, UniPCMultistepScheduler. ` + "`flow_solver: unipc`"},
		`"x": `: {err: "parse scheduler_config.json"},
	} {
		got, err := parseScheduler([]byte("{" + config + "}"))
		nntest.WantError(t, config, err, want.err)
		if want.err == "" && got != want.c {
			t.Errorf("%s is %+v", config, got)
		}
	}
}

// TestSchedulerInKeys: what the scheduler of a model says shows in the key where it differs from the common default, and
// an option of the job goes before it.
func TestSchedulerInKeys(t *testing.T) {
	key := func(scheduler, text string) string {
		t.Helper()
		var decoded any
		o := func(into any) error { decoded = into; return optionsOf(t, text)(into) }
		config, err := json.Marshal(DefaultConfig())
		if err != nil {
			t.Fatal(err)
		}
		configs := dit.Configs{Config: config, Index: stages.Index{ClassName: PipelineName}}
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
	} {
		if got := key(c[0], c[1]); got != c[2] {
			t.Errorf("%s with %q: the key has %s, want %s", c[0], c[1], got, c[2])
		}
	}
}
