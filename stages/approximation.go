package stages

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Approximation is an option whose results are not those of the exact computation, and its loss as it was measured. It changes no
// result: plans, runs and the documentation of the option tell it.
type Approximation struct {
	Option string // its path among the options of the stage, such as cache.name
	Value  string // with which it approximates; "": with any
	With   string // settings with which it was measured, "" where there are none
	// Kept and Of are how many of the prompts of testdata/prompts/eval.csv the built-in model draws as prompted with it and without it.
	// Of is 0 where that was not measured, and Why says why.
	Kept, Of int
	Why      string
	Page     string // where the measurements stand, below docs
}

// leastPercent is how many of a hundred prompts an approximation has to keep.
const leastPercent = 99

// Experimental reports whether the loss is larger than one prompt of a hundred, or not known.
func (a Approximation) Experimental() bool { return a.Of == 0 || 100*a.Kept < leastPercent*a.Of }

// Loss says what was measured.
func (a Approximation) Loss() string {
	if a.Of == 0 {
		return "its loss was not measured on the built-in model: " + a.Why
	}
	with := "with it"
	if a.With != "" {
		with = "with " + a.With
	}
	return fmt.Sprintf("%s the built-in model draws %d prompts as it should, without it %d (%.1f %%)", with, a.Kept, a.Of,
		100*float64(a.Kept)/float64(a.Of))
}

// Key is the option as it stands in a job file.
func (a Approximation) Key() string {
	key := strings.ReplaceAll(a.Option, ".", ": {")
	if a.Value != "" {
		key += ": " + a.Value
	}
	return key + strings.Repeat("}", strings.Count(a.Option, "."))
}

// in reports whether options, in canonical form, have it.
func (a Approximation) in(options json.RawMessage) bool {
	for _, key := range strings.Split(a.Option, ".") {
		var fields map[string]json.RawMessage
		if json.Unmarshal(options, &fields) != nil || fields[key] == nil || string(fields[key]) == "null" {
			return false
		}
		options = fields[key]
	}
	var value string
	return a.Value == "" || json.Unmarshal(options, &value) == nil && value == a.Value
}

// Experimental returns the experimental approximations that the options of the step ask for.
func (s Step) Experimental() (all []Approximation) {
	for _, a := range s.Spec.Approximations {
		if a.Experimental() && a.in(s.Options) {
			all = append(all, a)
		}
	}
	return all
}
