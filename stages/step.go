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
	// Looks is that the step only looks (Spec.Looks), at what can be had later: the published video, or media of the input. It is in
	// no result's key, and its readings are kept apart from results.
	Looks bool
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

// Lacking reports whether the step only looks and has a measure that has not looked at the element.
func (s Step) Lacking(e *Element) bool {
	return s.Looks && slices.ContainsFunc(s.Capabilities().Measures, e.Lacks)
}

// FirstProgram names the first of the steps that is a program, "" where none is.
func FirstProgram(steps []Step) string {
	for _, s := range steps {
		if s.Spec.Program != nil {
			return s.Name
		}
	}
	return ""
}
