package osplan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"latentbeam/stages"
	"latentbeam/stages/diffuse/sampler"
)

// solver is a scheduler class of diffusers, as a scheduler_config.json describes it.
type solver struct {
	name    string         // of sampler.VPConfig.Solver
	spacing string         // where there is none
	must    map[string]any // fields that have to have this value where they are there
	idle    []string       // fields without effect on these settings
}

// solvers are the classes that are known.
var solvers = map[string]solver{
	"EulerAncestralDiscreteScheduler": {name: ancestral, spacing: "linspace"},
	"PNDMScheduler": {name: pndm, spacing: "leading", must: map[string]any{"skip_prk_steps": false,
		"set_alpha_to_one": false}, idle: []string{"clip_sample"}},
}

// always are the fields of all classes that have to have one value.
var always = map[string]any{"num_train_timesteps": 1000.0, "beta_start": 0.0001, "beta_end": 0.02, "beta_schedule": "linear",
	"trained_betas": nil, "steps_offset": 0.0}

// parseScheduler reads a scheduler_config.json. Fields that would change results and that the samplers do not know are
// refused by name.
func parseScheduler(data []byte) (sampler.VPConfig, error) {
	var fields map[string]any
	c := sampler.VPConfig{Prediction: "epsilon"}
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(&fields); err != nil {
		return c, fmt.Errorf("parse scheduler_config.json: %w", err)
	}
	class := stages.ClassOf(data)
	s, ok := solvers[class]
	if !ok {
		return c, fmt.Errorf("scheduler_config.json names the class %q; Open-Sora-Plan is sampled by %s", class,
			"EulerAncestralDiscreteScheduler and PNDMScheduler")
	}
	c.Solver, c.Spacing = s.name, s.spacing
	known := map[string]any{"prediction_type": &c.Prediction, "timestep_spacing": &c.Spacing, "rescale_betas_zero_snr": &c.ZeroSNR}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		value, _ := json.Marshal(fields[name]) // it was JSON
		want, must := s.must[name]
		if !must {
			want, must = always[name]
		}
		text, _ := json.Marshal(want)
		switch into := known[name]; {
		case into != nil:
			if err := json.Unmarshal(value, into); err != nil {
				return c, fmt.Errorf("scheduler_config.json: %s is %s: %w", name, value, err)
			}
		case strings.HasPrefix(name, "_") || slices.Contains(s.idle, name) || must && bytes.Equal(value, text):
		case must:
			return c, fmt.Errorf("scheduler_config.json: %s of %s is %s, only %s is supported", name, class, value, text)
		case fields[name] != nil && fields[name] != false:
			return c, fmt.Errorf("scheduler_config.json: %s has a field %s (%s) that is not known here: it may change results",
				class, name, value)
		}
	}
	if _, err := sampler.VP(c); err != nil {
		return c, fmt.Errorf("scheduler_config.json: %w", err)
	}
	return c, nil
}

// DescribeScheduler says how a scheduler_config.json samples. The error names what there is no sampler for.
func DescribeScheduler(data []byte) (string, error) {
	c, err := parseScheduler(data)
	if err != nil {
		return "", err
	}
	out := fmt.Sprintf("%s, %s, %s steps", c.Solver, c.Prediction, c.Spacing)
	if c.ZeroSNR {
		out += ", betas rescaled to zero SNR"
	}
	return out, nil
}
