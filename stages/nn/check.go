package nn

import (
	"fmt"
	"slices"
	"strings"
)

// maxListed bounds the lines of one error; the published models have at most 977 tensors.
const maxListed = 1000

// Check returns nil when every tensor that was asked for came in the right shape and the files hold no
// other under w's prefix, the ignored names (relative to w) apart. Otherwise its one error lists all that
// does not fit, with the found and the wanted shape. Call it once, after the last request.
func (w *Weights) Check(ignore ...string) error {
	lines := slices.Clone(w.faults)
	for name, t := range w.found {
		short, under := strings.CutPrefix(name, w.prefix)
		if _, asked := w.asked[name]; asked || !under || slices.Contains(ignore, short) {
			continue
		}
		lines = append(lines, line("unexpected", name, fmt.Sprintf("%v", t.Shape)))
	}
	if len(lines) == 0 {
		return nil
	}
	slices.Sort(lines)
	total := len(lines)
	if total > maxListed {
		lines = append(lines[:maxListed], fmt.Sprintf("and %d more", total-maxListed))
	}
	return fmt.Errorf("weights: %d of the tensors do not fit config.json (%d wanted, %d found):\n  %s",
		total, len(w.asked), len(w.found), strings.Join(lines, "\n  "))
}

func (a *account) fault(kind, name, detail string) {
	a.faults = append(a.faults, line(kind, name, detail))
}

func line(kind, name, detail string) string { return fmt.Sprintf("%-11s %q %s", kind, name, detail) }
