package stages

import (
	"encoding/json"
	"slices"
)

// Step is one stage of a job, opened.
type Step struct {
	Name    string // of the stage, or that which the job gives it where it has the stage more than once
	Spec    Spec
	Options json.RawMessage // the stage's options in canonical form, part of the keys
	Gives   Kind
	Stage
}

// KeyName names the step in keys: a name that the job gave it is not part of them.
func (s Step) KeyName() string {
	if s.Spec.Of != nil {
		return s.Spec.Name
	}
	return s.Name
}

// Params returns the columns that the result of the step depends on.
func (s Step) Params() []Param { return slices.Concat(s.Spec.Params, s.Capabilities().Params) }

// FirstProgram names the first of the steps that is a program, "" where none is.
func FirstProgram(steps []Step) string {
	for _, s := range steps {
		if s.Spec.Program != nil {
			return s.Name
		}
	}
	return ""
}
