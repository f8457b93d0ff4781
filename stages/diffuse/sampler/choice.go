package sampler

import (
	"fmt"
	"slices"
	"strings"
)

// Process is the training process of a network. A solver fits the networks of one process.
type Process string

// The processes.
const (
	FlowMatching       Process = "flow matching"       // the network predicts the velocity from data to noise
	VariancePreserving Process = "variance preserving" // it predicts the noise, or v (arXiv:2202.00512)
)

// Choice is the option `sampler` of the stage denoise: the name of a solver, and settings. A missing setting has the model's
// own value.
type Choice struct {
	Name string `yaml:"name" json:"name,omitempty"`
	// Sigmas names a published table of noise levels; Shift moves the table towards the noise. Both are for flow matching.
	Sigmas string   `yaml:"sigmas" json:"sigmas,omitempty"`
	Shift  *float64 `yaml:"shift" json:"shift,omitempty"`
	// PredictionType is what the network predicts. TimestepSpacing says how the steps are spread over the training process.
	// RescaleBetasZeroSNR makes the process end in pure noise. All are for variance preserving processes.
	PredictionType      string `yaml:"prediction_type" json:"prediction_type,omitempty"`
	TimestepSpacing     string `yaml:"timestep_spacing" json:"timestep_spacing,omitempty"`
	RescaleBetasZeroSNR *bool  `yaml:"rescale_betas_zero_snr" json:"rescale_betas_zero_snr,omitempty"`
}

// Given returns the names of the settings that are set, without the solver's name.
func (c *Choice) Given() (names []string) {
	for _, s := range []struct {
		name  string
		given bool
	}{{"sigmas", c.Sigmas != ""}, {"shift", c.Shift != nil}, {"prediction_type", c.PredictionType != ""},
		{"timestep_spacing", c.TimestepSpacing != ""}, {"rescale_betas_zero_snr", c.RescaleBetasZeroSNR != nil}} {
		if s.given {
			names = append(names, s.name)
		}
	}
	return names
}

// Only returns an error for settings that a model does not have. model names the model for people.
func (c *Choice) Only(model string, settings ...string) error {
	for _, name := range c.Given() {
		if slices.Contains(settings, name) {
			continue
		}
		if len(settings) == 0 {
			return fmt.Errorf("sampler has %s: %s has no settings, leave it out", name, model)
		}
		return fmt.Errorf("sampler has %s: %s takes %s", name, model, strings.Join(settings, ", "))
	}
	return nil
}

// Solver is a sampler that a program of another module adds. A job chooses it by its name: `denoise: {sampler: {name: heun,
// shift: 5}}`. The program passes it to latentbeam.Run.
type Solver struct {
	Name    string  // not the name of a solver of this module
	Process Process // training process of the networks that it fits
	// Recipe makes a recipe from a choice. Zero numbers in the recipe mean the model's own values. An error must start with the
	// name of the wrong setting.
	Recipe func(c Choice) (Recipe, error)
}

// Choose returns the recipe of a solver of another module. The error for an unknown name lists the solvers that exist: own, the
// solvers of the model's family, and the added solvers of the process.
func Choose(c Choice, solvers []Solver, process Process, model string, own ...string) (Recipe, error) {
	names := slices.Clone(own)
	for _, s := range solvers {
		if s.Process != process {
			continue
		}
		if s.Name == c.Name {
			r, err := s.Recipe(c)
			if err != nil {
				err = fmt.Errorf("sampler %s: %w", s.Name, err)
			}
			return r, err
		}
		names = append(names, s.Name)
	}
	return Recipe{}, fmt.Errorf("sampler has the name %q: %s has %s", c.Name, model, strings.Join(names, ", "))
}

// Or returns r with its zero numbers replaced by the numbers of published.
func (r Recipe) Or(published Recipe) Recipe {
	if r.NumInferenceSteps == 0 {
		r.NumInferenceSteps = published.NumInferenceSteps
	}
	if r.GuidanceScale == 0 {
		r.GuidanceScale = published.GuidanceScale
	}
	return r
}
