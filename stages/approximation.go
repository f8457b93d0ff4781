package stages

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Approximation describes an option whose results differ from the exact computation, and its measured loss. Plans, runs and the
// documentation of the option show it.
type Approximation struct {
	Option string // path among the options of the stage, such as cache.name
	Value  string // the value that approximates; "": any value
	With   string // settings of the measurement; "": none
	// Kept and Of count the prompts of testdata/prompts/eval.csv that the built-in model draws as prompted, with the option and
	// without it. Of is 0 if that was not measured; Why then says why.
	Kept, Of int
	Why      string
	Page     string // page with the measurements, below docs
}

// leastPercent is the percentage of prompts that an approximation must keep not to count as experimental.
const leastPercent = 99

// Experimental reports whether the loss is larger than one prompt of a hundred, or not known.
func (a Approximation) Experimental() bool { return a.Of == 0 || 100*a.Kept < leastPercent*a.Of }

// Loss describes the measured loss.
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

// Key returns the option as it is written in a job file.
func (a Approximation) Key() string {
	key := strings.ReplaceAll(a.Option, ".", ": {")
	if a.Value != "" {
		key += ": " + a.Value
	}
	return key + strings.Repeat("}", strings.Count(a.Option, "."))
}

// in reports whether options, in canonical form, use the approximation.
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

// Experimental returns the experimental approximations that the options of the step use.
func (s Step) Experimental() (all []Approximation) {
	for _, a := range s.Spec.Approximations {
		if a.Experimental() && a.in(s.Options) {
			all = append(all, a)
		}
	}
	return all
}
