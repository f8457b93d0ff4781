package sampler

import (
	"testing"

	"latentbeam/stages/nn/nntest"
)

// TestFlowScheduler: the published scheduler classes are parsed, and unknown settings are refused by name.
func TestFlowScheduler(t *testing.T) {
	const unipc = `"_class_name": "UniPCMultistepScheduler", "use_flow_sigmas": true, "prediction_type": "flow_prediction"`
	const euler = `"_class_name": "FlowMatchEulerDiscreteScheduler"`
	for config, want := range map[string]struct {
		c   WanConfig
		err string
	}{
		unipc + `, "flow_shift": 5.0, "beta_end": 0.02, "disable_corrector": [], "x": null, "_x": 1`: {c: WanConfig{
			Solver: "unipc", Shift: 5}},
		unipc:                   {c: WanConfig{Solver: "unipc", Shift: 1}},
		euler + `, "shift": 8`:  {c: WanConfig{Solver: "euler", Shift: 8}},
		euler:                   {c: WanConfig{Solver: "euler", Shift: 1}},
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
			err: `names the class "DPMSolverMultistepScheduler"; there are FlowMatchEulerDiscreteScheduler, UniPCMultistepScheduler`},
		`"x": `: {err: "parse scheduler_config.json"},
	} {
		got, err := ParseScheduler([]byte("{"+config+"}"), FlowMatching)
		nntest.WantError(t, config, err, want.err)
		if want.err == "" && got.Wan() != want.c {
			t.Errorf("%s is %+v", config, got)
		}
	}
}

// TestVPScheduler: unknown settings of a scheduler are refused by name.
func TestVPScheduler(t *testing.T) {
	const euler, pndm = `"_class_name": "EulerAncestralDiscreteScheduler"`, `"_class_name": "PNDMScheduler"`
	for config, want := range map[string]string{
		euler + `, "_x": 1, "steps_offset": 0, "trained_betas": null, "beta_start": 0.0001, "beta_end": 0.02, "beta_schedule": "linear"`: "",
		pndm + `, "skip_prk_steps": false, "set_alpha_to_one": false`:                                                                    "",
		pndm + `, "skip_prk_steps": true`:            "skip_prk_steps of PNDMScheduler is true, only false",
		euler + `, "beta_schedule": "scaled_linear"`: `beta_schedule of EulerAncestralDiscreteScheduler is "scaled_linear", only "linear"`,
		euler + `, "beta_end": 0.012`:                "beta_end",
		euler + `, "use_karras_sigmas": true`:        "has a field use_karras_sigmas (true) that is not known here",
		euler + `, "prediction_type": "sample"`:      `prediction_type is "sample"`,
		euler + `, "prediction_type": 3`:             "prediction_type is 3",
		`"_class_name": "DDIMScheduler"`:             `names the class "DDIMScheduler"; there are EulerAncestralDiscreteScheduler, PNDMScheduler`,
		`"x": `:                                      "parse scheduler_config.json",
	} {
		_, err := ParseScheduler([]byte("{"+config+"}"), VariancePreserving)
		nntest.WantError(t, config, err, want)
	}
	if does, err := ParseScheduler([]byte("{"+euler+`, "rescale_betas_zero_snr": true}`), VariancePreserving); err != nil ||
		does.String() != "euler_ancestral, epsilon, linspace steps, betas rescaled to zero SNR" {
		t.Errorf("%s, %v", does, err)
	}
}
