package guard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
	"latentbeam/stages/score"
)

// options are the options of the stage in the YAML.
type options struct {
	Reject []string `yaml:"reject" json:"reject"` // names of checks; default nan and black
	// Limits bound readings by name. Rows outside of the limits, or without a number, are dropped.
	Limits stages.Limits `yaml:"limits" json:"limits,omitempty"`
	// Duplicates is the largest number of different bits, of 64, between the perceptual hashes of clips that count as alike.
	// The first of them is kept. Nil: duplicates are not searched.
	Duplicates *int `yaml:"duplicates" json:"duplicates,omitempty"`
}

// maxDuplicates limits Duplicates. With more, unrelated clips would count as alike.
const maxDuplicates = 15

// check examines one element and returns why it is rejected, or "".
type check struct {
	name, doc string
	reject    func(e *stages.Element) string
}

// checks lists the checks of a guard.
var checks = []check{
	{"nan", "latents or embeddings that are not finite", notFinite},
	{"black", "all frames black", black},
	{"frozen", "all frames the same, byte for byte", frozen},
}

// Spec returns the stage `guard`. It takes any kind and passes it on unchanged, so it is not part of the keys. A rejected row
// goes to the failures table.
func Spec() stages.Spec {
	var docs []string
	for _, c := range checks {
		docs = append(docs, c.name+" ("+c.doc+")")
	}
	return stages.Spec{
		Name: "guard",
		Doc: "fails rows whose result is not worth keeping; reject: " + strings.Join(docs, ", ") +
			"; leaves out rows by limits: {READING: {min, max}} and by duplicates: bits that may differ",
		Version: 1,
		Passive: true,
		New:     open,
	}
}

func open(_ *stages.Model, o stages.Options) (stages.Stage, error) {
	var opts options
	if err := o.Into(&opts); err != nil {
		return nil, err
	}
	g := &guard{}
	for _, name := range opts.Reject {
		i := slices.IndexFunc(checks, func(c check) bool { return c.name == name })
		if i < 0 {
			return nil, stages.Errorf("reject", "guard: reject names %q; there are nan, black and frozen", name)
		}
		g.checks = append(g.checks, checks[i])
	}
	if opts.Reject == nil {
		g.checks = checks[:2]
	}
	for name, l := range opts.Limits {
		if l.Min == nil && l.Max == nil || l.Min != nil && l.Max != nil && !(*l.Min <= *l.Max) {
			return nil, stages.Errorf("limits", "guard: limits of %s: give min, max, or both with min at most max", name)
		}
	}
	g.limits = opts.Limits
	if d := opts.Duplicates; d != nil {
		if *d < 0 || *d > maxDuplicates {
			return nil, stages.Errorf("duplicates", "guard: duplicates is %d: give 0 to %d of 64 bits", *d, maxDuplicates)
		}
		g.alike = &stages.Alike{Reading: score.Hash, Distance: *d}
	}
	return g, nil
}

type guard struct {
	checks []check
	limits stages.Limits
	alike  *stages.Alike
}

// Digest returns "": a guard has no weights.
func (g *guard) Digest() string { return "" }

// Check accepts every row.
func (g *guard) Check(*schemas.PromptRow) error { return nil }

// Need returns 0: the guard works on the host, in place.
func (g *guard) Need(*schemas.PromptRow, int) (int64, error) { return 0, nil }

// Capabilities lists the readings that the guard needs, and what the report drops.
func (g *guard) Capabilities() stages.Capabilities {
	reads := slices.Sorted(maps.Keys(g.limits))
	if g.alike != nil {
		reads = append(reads, g.alike.Reading)
	}
	return stages.Capabilities{Reads: reads, Alike: g.alike, Limits: g.limits}
}

// Run fails the elements that a check rejects, and drops elements outside of a limit.
func (g *guard) Run(_ context.Context, _ kernels.Backend, batch []*stages.Element) error {
	for _, e := range batch {
		for _, c := range g.checks {
			if why := c.reject(e); why != "" {
				e.Fail("guard", fault.Row(fmt.Errorf("rejected as %s: %s", c.name, why)))
			}
		}
		if why := g.limits.Judge(e.Reading); why != "" {
			e.Fail("guard", fault.Dropped(errors.New(why)))
		}
	}
	return nil
}

func notFinite(e *stages.Element) string {
	if why := e.NotFinite(stages.KindText); why != "" {
		return why
	}
	return e.NotFinite(stages.KindLatents)
}

// blackLevel is the largest byte that counts as black.
const blackLevel = 8

func black(e *stages.Element) string {
	if e.Frames == nil {
		return ""
	}
	for _, f := range e.Frames.Frames {
		if slices.ContainsFunc(f, func(b byte) bool { return b > blackLevel }) {
			return ""
		}
	}
	return fmt.Sprintf("no byte of %d frames is above %d", len(e.Frames.Frames), blackLevel)
}

// frozen finds videos that repeat one frame exactly. A still scene does not: a denoiser leaves small differences between
// frames, but a broken temporal layer does not.
func frozen(e *stages.Element) string {
	if e.Frames == nil || len(e.Frames.Frames) < 2 {
		return ""
	}
	first := e.Frames.Frames[0]
	for _, f := range e.Frames.Frames[1:] {
		if !bytes.Equal(f, first) {
			return ""
		}
	}
	return fmt.Sprintf("%d frames are byte for byte the same", len(e.Frames.Frames))
}
