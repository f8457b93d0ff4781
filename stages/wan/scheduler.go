package wan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"latentbeam/stages"
	"latentbeam/stages/diffuse/sampler"
)

// solver is a scheduler class of diffusers, as a scheduler_config.json describes it.
type solver struct {
	name  string         // of sampler.WanConfig.Solver
	shift string         // the field that holds the shift; 1 where it is missing
	must  map[string]any // fields that have to be there with this value
	may   map[string]any // fields that must have this value where they are there
	idle  []string       // fields without effect on these settings
}

// solvers are the classes that are known.
var solvers = map[string]solver{
	"UniPCMultistepScheduler": {name: "unipc", shift: "flow_shift",
		must: map[string]any{"use_flow_sigmas": true, "prediction_type": "flow_prediction"},
		may: map[string]any{"num_train_timesteps": 1000.0, "solver_order": 2.0, "solver_type": "bh2", "predict_x0": true,
			"lower_order_final": true, "thresholding": false, "disable_corrector": []any{}, "solver_p": nil,
			"use_karras_sigmas": false, "use_exponential_sigmas": false, "use_beta_sigmas": false,
			"use_dynamic_shifting": false, "final_sigmas_type": "zero", "rescale_betas_zero_snr": false,
			"sigma_min": nil, "sigma_max": nil, "shift_terminal": nil},
		idle: []string{"beta_start", "beta_end", "beta_schedule", "trained_betas", "dynamic_thresholding_ratio",
			"sample_max_value", "timestep_spacing", "steps_offset", "time_shift_type"}},
	"FlowMatchEulerDiscreteScheduler": {name: "euler", shift: "shift",
		may: map[string]any{"num_train_timesteps": 1000.0, "use_dynamic_shifting": false, "invert_sigmas": false,
			"shift_terminal": nil, "use_karras_sigmas": false, "use_exponential_sigmas": false, "use_beta_sigmas": false,
			"stochastic_sampling": false},
		idle: []string{"base_shift", "max_shift", "base_image_seq_len", "max_image_seq_len", "time_shift_type"}},
}

// notNumbers are what Python's json writes for floats that are no numbers, as lambda_min_clipped of DPM-Solver.
var notNumbers = regexp.MustCompile(`([:,\[]\s*)(-?Infinity|NaN)\b`)

// unknownScheduler is a class that there is no solver for.
type unknownScheduler struct{ class string }

// Error says which there are, and how a job goes on without it.
func (e *unknownScheduler) Error() string {
	return fmt.Sprintf("scheduler_config.json names the class %q; there are %s. `flow_solver: unipc` of denoise (or euler, dmd) is taken "+
		"in its place", e.class, strings.Join(slices.Sorted(maps.Keys(solvers)), ", "))
}

// parseScheduler reads a scheduler_config.json. Fields that would change results and that the solvers do not know are
// refused by name. Of a class that is not known the error is an unknownScheduler, and the shift is returned.
func parseScheduler(data []byte) (sampler.WanConfig, error) {
	var fields map[string]any
	data = notNumbers.ReplaceAll(data, []byte("${1}null")) // as Python's json writes
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(&fields); err != nil {
		return sampler.WanConfig{}, fmt.Errorf("parse scheduler_config.json: %w", err)
	}
	class := stages.ClassOf(data)
	s, ok := solvers[class]
	if !ok {
		c := sampler.WanConfig{}
		for _, field := range []string{"flow_shift", "shift"} {
			if v, is := fields[field].(float64); is && v > 0 && c.Shift == 0 {
				c.Shift = v
			}
		}
		return c, &unknownScheduler{class}
	}
	out := sampler.WanConfig{Solver: s.name, Shift: 1}
	if v, given := fields[s.shift]; given {
		if out.Shift, ok = v.(float64); !ok || out.Shift <= 0 {
			return out, fmt.Errorf("scheduler_config.json: %s is %s: give a number above 0", s.shift, text(v))
		}
	}
	return out, s.check(class, fields)
}

// DescribeScheduler says how a scheduler_config.json samples. The error names what there is no solver for.
func DescribeScheduler(data []byte) (string, error) {
	c, err := parseScheduler(data)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, flow_shift %g", c.Solver, c.Shift), nil
}

// check refuses fields that the solver cannot follow.
func (s solver) check(class string, fields map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(s.must)) {
		if _, given := fields[name]; !given {
			return fmt.Errorf("scheduler_config.json: %s has no %s, only %s is supported", class, name, text(s.must[name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		v := fields[name]
		want, known := s.may[name]
		if must, ok := s.must[name]; ok {
			want, known = must, true
		}
		switch {
		case strings.HasPrefix(name, "_") || name == s.shift || slices.Contains(s.idle, name):
		case known && text(v) == text(want):
		case known:
			return fmt.Errorf("scheduler_config.json: %s of %s is %s, only %s is supported", name, class, text(v), text(want))
		case v != nil && v != false:
			return fmt.Errorf("scheduler_config.json: %s has a field %s (%s) that is not known here: it may change results",
				class, name, text(v))
		}
	}
	return nil
}

// text writes a value as JSON.
func text(v any) string {
	data, _ := json.Marshal(v) // it was JSON
	return string(data)
}
