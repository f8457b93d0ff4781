package stages

import (
	"encoding/json"
	"slices"
)

// Step is one stage of a job, opened.
type Step struct {
	Name    string // name of the stage, or the name that the job gives it if the stage occurs more than once
	Spec    Spec
	Options json.RawMessage // the stage's options in canonical form, part of the keys
	Gives   Kind
	// MeasuresOnly says that the step only measures (Spec.MeasuresOnly) something that is available later: the published video, or media of
	// the input. Such a step is in no key, and its readings are stored apart from results.
	MeasuresOnly bool
	Stage
}

// KeyName returns the step's name for keys. It does not contain the name that the job gave it.
func (s Step) KeyName() string {
	if s.Spec.Of != nil {
		return s.Spec.Name
	}
	return s.Name
}

// Params returns the columns that the result of the step depends on.
func (s Step) Params() []Param { return slices.Concat(s.Spec.Params, s.Capabilities().Params) }

// Lacking reports whether the step only measures and has a measure that was not yet computed for the element.
func (s Step) Lacking(e *Element) bool {
	return s.MeasuresOnly && slices.ContainsFunc(s.Capabilities().Measures, e.Lacks)
}

// FirstProgram returns the name of the first step that runs an external program, "" if there is none.
func FirstProgram(steps []Step) string {
	for _, s := range steps {
		if s.Spec.Program != nil {
			return s.Name
		}
	}
	return ""
}
