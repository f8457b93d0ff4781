package stages

import (
	"encoding/json"
	"slices"
)

// Step is one stage of a job, opened.
type Step struct {
	Name    string
	Spec    Spec
	Options json.RawMessage // the stage's options in canonical form, part of the keys
	Gives   Kind
	Stage
}

// Params returns the columns that the result of the step depends on.
func (s Step) Params() []Param { return slices.Concat(s.Spec.Params, s.Capabilities().Params) }
