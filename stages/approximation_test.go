package stages

import (
	"encoding/json"
	"slices"
	"testing"
)

// TestExperimental: a step lists those approximations among its options that keep fewer than 99 of 100 prompts, or that
// nobody has measured.
func TestExperimental(t *testing.T) {
	spec := Spec{Approximations: []Approximation{
		{Option: "cache.name", Value: "one", Kept: 98, Of: 100},
		{Option: "cache.name", Value: "two", Kept: 99, Of: 100},
		{Option: "cache.name", Value: "three"},
		{Option: "interval", Kept: 91, Of: 92},
		{Option: "precision", Value: "int8", Kept: 92, Of: 92},
	}}
	for options, want := range map[string][]string{
		`{}`:                           nil,
		`{"cache": null}`:              nil,
		`{"cache": {"name": "one"}}`:   {"cache: {name: one}"},
		`{"cache": {"name": "two"}}`:   nil,
		`{"cache": {"name": "three"}}`: {"cache: {name: three}"},
		`{"cache": {"name": 3}}`:       nil,
		`{"cache": "one"}`:             nil,
		`{"interval": [0, 0.5]}`:       {"interval"},
		`{"precision": "int8"}`:        nil,
		`{"interval": [0, 1], "cache": {"name": "one", "threshold": 1}}`: {"cache: {name: one}", "interval"},
	} {
		var got []string
		for _, a := range (Step{Spec: spec, Options: json.RawMessage(options)}).Experimental() {
			got = append(got, a.Key())
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: experimental are %q, want %q", options, got, want)
		}
	}
}
