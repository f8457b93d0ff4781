package sampler

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Scheduler is the content of a model's scheduler_config.json: the solver with its settings.
type Scheduler struct {
	Class   string // of diffusers
	Process Process
	Choice
}

// schedulerClass describes how a solver follows a scheduler class of diffusers.
type schedulerClass struct {
	process Process
	choice  func() *Choice          // the solver with the defaults of the class
	fields  func(c *Choice) []field // settings that are read from the file
	must    map[string]any          // fields that must be present with this value
	may     map[string]any          // fields that must have this value if they are present
	idle    []string                // fields without effect
}

// field is a setting of a scheduler_config.json and the variable for its value.
type field struct {
	name string
	into any
}

// vpFixed are the fields of the variance-preserving process that must have one fixed value.
var vpFixed = map[string]any{"num_train_timesteps": 1000.0, "beta_start": 0.0001, "beta_end": 0.02, "beta_schedule": "linear",
	"trained_betas": nil, "steps_offset": 0.0}

// schedulerClasses are the supported classes.
var schedulerClasses = map[string]schedulerClass{
	"UniPCMultistepScheduler": {process: FlowMatching, choice: shifted1(solverUniPC),
		fields: func(c *Choice) []field { return []field{{"flow_shift", c.Shift}} },
		must:   map[string]any{"use_flow_sigmas": true, "prediction_type": "flow_prediction"},
		may: map[string]any{"num_train_timesteps": 1000.0, "solver_order": 2.0, "solver_type": "bh2", "predict_x0": true,
			"lower_order_final": true, "thresholding": false, "disable_corrector": []any{}, "solver_p": nil,
			"use_karras_sigmas": false, "use_exponential_sigmas": false, "use_beta_sigmas": false,
			"use_dynamic_shifting": false, "final_sigmas_type": "zero", "rescale_betas_zero_snr": false,
			"sigma_min": nil, "sigma_max": nil, "shift_terminal": nil},
		idle: []string{"beta_start", "beta_end", "beta_schedule", "trained_betas", "dynamic_thresholding_ratio",
			"sample_max_value", "timestep_spacing", "steps_offset", "time_shift_type"}},
	"FlowMatchEulerDiscreteScheduler": {process: FlowMatching, choice: shifted1(solverEuler),
		fields: func(c *Choice) []field { return []field{{"shift", c.Shift}} },
		may: map[string]any{"num_train_timesteps": 1000.0, "use_dynamic_shifting": false, "invert_sigmas": false,
			"shift_terminal": nil, "use_karras_sigmas": false, "use_exponential_sigmas": false, "use_beta_sigmas": false,
			"stochastic_sampling": false},
		idle: []string{"base_shift", "max_shift", "base_image_seq_len", "max_image_seq_len", "time_shift_type"}},
	"EulerAncestralDiscreteScheduler": {process: VariancePreserving, choice: spaced(solverAncestral, spacingLinspace),
		fields: vpFields, may: vpFixed},
	"PNDMScheduler": {process: VariancePreserving, choice: spaced(solverPNDM, spacingLeading), fields: vpFields,
		may: mergeFields(vpFixed, map[string]any{"skip_prk_steps": false, "set_alpha_to_one": false}), idle: []string{"clip_sample"}},
}

// shifted1 returns a flow matching solver whose class defaults to shift 1.
func shifted1(solver string) func() *Choice {
	return func() *Choice { one := 1.0; return &Choice{Name: solver, Shift: &one} }
}

// spaced returns a variance-preserving solver with the default spacing of its class.
func spaced(solver, spacing string) func() *Choice {
	return func() *Choice {
		return &Choice{Name: solver, PredictionType: predictionEpsilon, TimestepSpacing: spacing, RescaleBetasZeroSNR: new(bool)}
	}
}

// vpFields returns the settings of VPConfig.
func vpFields(c *Choice) []field {
	return []field{{"prediction_type", &c.PredictionType}, {"timestep_spacing", &c.TimestepSpacing},
		{"rescale_betas_zero_snr", c.RescaleBetasZeroSNR}}
}

// mergeFields returns a map with the entries of a and b.
func mergeFields(a, b map[string]any) map[string]any {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// notNumbers matches the words that Python's json writes for infinities and NaNs, such as lambda_min_clipped of DPM-Solver.
var notNumbers = regexp.MustCompile(`([:,\[]\s*)(-?Infinity|NaN)\b`)

// UnknownScheduler is the error for a class that no solver supports.
type UnknownScheduler struct {
	Class   string
	Process Process // of the model
	Shift   float64 // in the file, for flow matching; 0: none
}

// Error lists the supported classes of the process.
func (e *UnknownScheduler) Error() string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(schedulerClasses)) {
		if schedulerClasses[name].process == e.Process {
			names = append(names, name)
		}
	}
	return fmt.Sprintf("scheduler_config.json names the class %q; there are %s", e.Class, strings.Join(names, ", "))
}

// ParseScheduler reads the scheduler_config.json of a model. It returns an error that names fields which would change results
// and are not supported. A class that no solver of the process supports gives an UnknownScheduler.
func ParseScheduler(data []byte, process Process) (Scheduler, error) {
	var fields map[string]any
	data = notNumbers.ReplaceAll(data, []byte("${1}null"))
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(&fields); err != nil {
		return Scheduler{}, fmt.Errorf("parse scheduler_config.json: %w", err)
	}
	class, _ := fields["_class_name"].(string)
	c, ok := schedulerClasses[class]
	if !ok || c.process != process {
		unknown := &UnknownScheduler{Class: class, Process: process}
		for _, name := range []string{"flow_shift", "shift"} {
			if v, is := fields[name].(float64); is && v > 0 && unknown.Shift == 0 {
				unknown.Shift = v
			}
		}
		return Scheduler{}, unknown
	}
	choice := c.choice()
	if err := c.follow(class, fields, c.fields(choice)); err != nil {
		return Scheduler{}, fmt.Errorf("scheduler_config.json: %w", err)
	}
	if v := choice.Shift; v != nil && !(*v > 0) {
		return Scheduler{}, fmt.Errorf("scheduler_config.json: %s is %g: give a number above 0", c.fields(choice)[0].name, *v)
	}
	if process == VariancePreserving {
		if _, err := VP(choice.vp()); err != nil {
			return Scheduler{}, fmt.Errorf("scheduler_config.json: %w", err)
		}
	}
	return Scheduler{Class: class, Process: process, Choice: *choice}, nil
}

// follow reads the settings of a file and returns an error for fields that the solver does not support.
func (c schedulerClass) follow(class string, fields map[string]any, settings []field) error {
	for _, name := range slices.Sorted(maps.Keys(c.must)) {
		if _, given := fields[name]; !given {
			return fmt.Errorf("%s has no %s, only %s is supported", class, name, asJSON(c.must[name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		v := fields[name]
		if i := slices.IndexFunc(settings, func(f field) bool { return f.name == name }); i >= 0 {
			if v == nil && c.process == FlowMatching {
				return fmt.Errorf("%s is null: give a number above 0", name)
			}
			if err := json.Unmarshal([]byte(asJSON(v)), settings[i].into); err != nil {
				return fmt.Errorf("%s is %s: %w", name, asJSON(v), err)
			}
			continue
		}
		want, known := c.must[name]
		if !known {
			want, known = c.may[name]
		}
		switch {
		case strings.HasPrefix(name, "_") || slices.Contains(c.idle, name):
		case known && asJSON(v) == asJSON(want):
		case known:
			return fmt.Errorf("%s of %s is %s, only %s is supported", name, class, asJSON(v), asJSON(want))
		case v != nil && v != false:
			return fmt.Errorf("%s has a field %s (%s) that is not known here: it may change results", class, name, asJSON(v))
		}
	}
	return nil
}

// asJSON formats a value that was decoded from JSON.
func asJSON(v any) string {
	data, _ := json.Marshal(v)
	return string(data)
}

// String describes the scheduler for people.
func (s Scheduler) String() string {
	if s.Process == FlowMatching {
		return fmt.Sprintf("%s, flow_shift %g", s.Name, *s.Shift)
	}
	out := fmt.Sprintf("%s, %s, %s steps", s.Name, s.PredictionType, s.TimestepSpacing)
	if *s.RescaleBetasZeroSNR {
		out += ", betas rescaled to zero SNR"
	}
	return out
}

// Wan returns the configuration of a flow matching scheduler.
func (s Scheduler) Wan() WanConfig {
	return WanConfig{Solver: s.Name, Sigmas: s.Sigmas, Shift: *s.Shift}
}

// VP returns the configuration of a variance-preserving scheduler.
func (s Scheduler) VP() VPConfig { return s.vp() }

func (c *Choice) vp() VPConfig {
	return VPConfig{Solver: c.Name, Prediction: c.PredictionType, Spacing: c.TimestepSpacing, ZeroSNR: *c.RescaleBetasZeroSNR}
}
