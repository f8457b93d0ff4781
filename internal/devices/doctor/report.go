package doctor

import (
	"fmt"
	"io"
	"strings"
)

// CheckState is the result of a check.
type CheckState string

// The states, from good to bad.
const (
	OK      CheckState = "ok"
	Note    CheckState = "note"    // usable, and worth knowing
	Missing CheckState = "missing" // absent; the program works without it
	Broken  CheckState = "broken"  // present, and does not work
)

// Check is the finding about one thing.
type Check struct {
	Name  string     `json:"name"`
	State CheckState `json:"state"`
	Found string     `json:"found"`
	Cost  string     `json:"cost,omitempty"` // consequence for a job
	Fix   string     `json:"fix,omitempty"`
}

// Report is the result of all checks.
type Report struct {
	OK     bool      `json:"ok"` // nothing is broken
	Checks []Check   `json:"checks"`
	Facts  HostFacts `json:"facts"`
}

// Broken returns the names of broken things.
func (r Report) Broken() (names []string) {
	for _, c := range r.Checks {
		if c.State == Broken {
			names = append(names, c.Name)
		}
	}
	return names
}

// Print writes the report for people.
func (r Report) Print(w io.Writer) error {
	name := 0
	for _, c := range r.Checks {
		name = max(name, len([]rune(c.Name)))
	}
	p := r.Facts.Program
	kind := "with CUDA"
	if !p.CUDA {
		kind = "CPU only, CUDA is not built in"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "latentbeam %s, %s, %s (%s)\n\n", p.Version, p.Platform, p.Go, kind)
	for _, c := range r.Checks {
		fmt.Fprintf(&b, "%-8s %-*s  %s\n", c.State, name, c.Name, c.Found)
		for _, more := range []struct{ what, text string }{{"cost", c.Cost}, {"fix", c.Fix}} {
			if more.text != "" {
				fmt.Fprintf(&b, "%-8s %-*s  %s: %s\n", "", name, "", more.what, more.text)
			}
		}
	}
	b.WriteString("\n")
	if names := r.Broken(); len(names) > 0 {
		fmt.Fprintf(&b, "broken: %s\n", strings.Join(names, ", "))
	} else {
		b.WriteString("nothing is broken\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
