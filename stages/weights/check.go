package weights

import (
	"fmt"
	"slices"
	"strings"
)

// maxListed bounds the lines of one error; the published models have at most 977 tensors.
const maxListed = 1000

// wrongType is the kind of a tensor whose elements no backend stores.
const wrongType = "wrong type"

// Misfit is a tensor that does not fit the model.
type Misfit struct {
	Kind   string `json:"kind"` // missing, unexpected, wrong shape, wrong type, not finite, duplicate
	Name   string `json:"name"`
	Detail string `json:"detail"` // for people: the shape that it has, or should have
}

// String is a line of the report of a checkpoint that does not fit.
func (m Misfit) String() string { return fmt.Sprintf("%-11s %q %s", m.Kind, m.Name, m.Detail) }

// Check returns nil when every tensor that was asked for came in the right shape and the files hold no
// other under w's prefix, the ignored names (relative to w; "decoder.*" is all below) apart. Otherwise its
// one error lists all that does not fit, with the found and the wanted shape. Where the device did not take a
// tensor, the error is that of the device. Call it once, after the last request.
func (w *Weights) Check(ignore ...string) error {
	if w.failed != nil {
		return fmt.Errorf("weights: %w", w.failed)
	}
	w.misfits = slices.Clone(w.faults)
	for name, t := range w.found {
		short, under := strings.CutPrefix(name, w.prefix)
		if _, asked := w.asked[name]; asked || !under || ignored(short, ignore) || ignored(name, w.skipped) {
			continue
		}
		w.misfits = append(w.misfits, Misfit{"unexpected", name, fmt.Sprintf("%v", t.Shape)})
	}
	if len(w.misfits) == 0 {
		return nil
	}
	var lines []string
	for _, m := range w.misfits {
		lines = append(lines, m.String())
	}
	slices.Sort(lines)
	total := len(lines)
	if total > maxListed {
		lines = append(lines[:maxListed], fmt.Sprintf("and %d more", total-maxListed))
	}
	if CastHelps(w.misfits) {
		lines = append(lines, "fix: `latentbeam convert --dtype f32 FILE OUT` rounds tensors of F64")
	}
	for _, hint := range w.hints {
		lines = append(lines, "fix: "+hint)
	}
	return fmt.Errorf("weights: %d of the tensors do not fit config.json (%d wanted, %d found):\n  %s",
		total, len(w.asked), len(w.found), strings.Join(lines, "\n  "))
}

// Hint adds to the error of Check what a person can do about tensors that do not fit.
func (w *Weights) Hint(text string) { w.hints = append(w.hints, text) }

// CastHelps reports whether there are tensors of a type that no backend stores and that `latentbeam convert --dtype`
// rounds.
func CastHelps(misfits []Misfit) bool {
	return slices.ContainsFunc(misfits, func(m Misfit) bool {
		return m.Kind == wrongType && strings.HasPrefix(m.Detail, "F64")
	})
}

// Misfits returns what the last Check found, in no order.
func (w *Weights) Misfits() []Misfit { return slices.Clone(w.misfits) }

// ignored reports whether one of the patterns is name, or ends in .* and is a path above it.
func ignored(name string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		above, all := strings.CutSuffix(p, "*")
		return p == name || all && strings.HasPrefix(name, above)
	})
}

func (a *account) fault(kind, name, detail string) {
	a.faults = append(a.faults, Misfit{kind, name, detail})
}
