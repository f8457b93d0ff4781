package weights

import (
	"fmt"
	"slices"
	"strings"
)

// maxListed limits the lines of one error. Published models have at most 977 tensors.
const maxListed = 1000

// wrongType is the kind of a tensor with an element type that no backend stores.
const wrongType = "wrong type"

// Misfit describes a tensor that does not fit the model.
type Misfit struct {
	Kind   string `json:"kind"` // missing, unexpected, wrong shape, wrong type, not finite, duplicate
	Name   string `json:"name"`
	Detail string `json:"detail"` // for people: the actual or the expected shape
}

// String returns a line for the report of a checkpoint that does not fit.
func (m Misfit) String() string { return fmt.Sprintf("%-11s %q %s", m.Kind, m.Name, m.Detail) }

// Check returns nil if every requested tensor had the right shape and the files have no other tensors under w's prefix. Tensors
// that match ignore (relative to w; "decoder.*" matches everything below decoder) may exist. Otherwise a single error lists
// everything that does not fit, with the actual and expected shapes. If the device did not accept a tensor, the device's error
// is returned. Call it once, after the last request.
func (w *Weights) Check(ignore ...string) error {
	if w.failed != nil {
		return fmt.Errorf("weights: %w", w.failed)
	}
	w.misfits = slices.Clone(w.faults)
	for name, t := range w.found {
		short, under := strings.CutPrefix(name, w.prefix)
		if _, asked := w.requested[name]; asked || !under || ignored(short, ignore) || ignored(name, w.skipped) {
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
		total, len(w.requested), len(w.found), strings.Join(lines, "\n  "))
}

// Hint adds advice for the user to the error of Check.
func (w *Weights) Hint(text string) { w.hints = append(w.hints, text) }

// CastHelps reports whether some tensors have a type that no backend stores but that `latentbeam convert --dtype` can round.
func CastHelps(misfits []Misfit) bool {
	return slices.ContainsFunc(misfits, func(m Misfit) bool {
		return m.Kind == wrongType && strings.HasPrefix(m.Detail, "F64")
	})
}

// Misfits returns the misfits that the last Check found, in no particular order.
func (w *Weights) Misfits() []Misfit { return slices.Clone(w.misfits) }

// ignored reports whether name equals one of the patterns, or is below a pattern that ends in .*.
func ignored(name string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		above, all := strings.CutSuffix(p, "*")
		return p == name || all && strings.HasPrefix(name, above)
	})
}

func (a *account) fault(kind, name, detail string) {
	a.faults = append(a.faults, Misfit{kind, name, detail})
}
