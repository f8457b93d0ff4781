package stages

import (
	"fmt"
	"slices"
	"strings"
)

// Fit checks that the stages in names, in this order, can process a source of kind in: every stage takes a kind that the source
// or an earlier stage gives. It returns the kinds between the stages: seams[0] is in, and seams[i+1] is what names[i] gives.
// Elements of media have a caption too, so a job may encode both; a stage that makes the caption from the media does not remove
// the media. index is the stage that an error is about.
func Fit(in Kind, names []string, specs []Spec) (seams []Kind, index int, err error) {
	seams = []Kind{in}
	carried := []Kind{in} // the kinds that elements have and no stage has taken
	if in == KindMedia {
		carried = append(carried, KindPrompt)
	}
	for i, name := range names {
		spec, ok := Find(specs, name)
		if !ok {
			return nil, i, fmt.Errorf("unknown stage %q; there are %s", name, strings.Join(Names(specs), ", "))
		}
		have := seams[len(seams)-1]
		switch {
		case spec.MeasuresOnly && spec.In == "" && have != KindVideo && have != KindMedia:
			return nil, i, fmt.Errorf("stage %q looks at video or media, but %s gives %s", name, before(names, i), have)
		case spec.In == "":
			seams = append(seams, have)
		case !slices.Contains(carried, spec.In):
			return nil, i, fmt.Errorf("stage %q takes %s, but %s gives %s%s",
				name, spec.In, before(names, i), have, suggest(in, have, spec.In, specs))
		case spec.In == KindMedia && spec.Out == KindPrompt:
			seams = append(seams, spec.Out)
		default:
			carried[slices.Index(carried, spec.In)] = spec.Out
			if spec.Out == KindMedia && in == KindPrompt && !slices.Contains(carried, KindPrompt) {
				carried = append(carried, KindPrompt)
			}
			seams = append(seams, spec.Out)
		}
	}
	return seams, 0, nil
}

func before(names []string, i int) string {
	if i == 0 {
		return "the input"
	}
	return fmt.Sprintf("stage %q before it", names[i-1])
}

// suggest names a single stage that would close the gap, or the input that would.
func suggest(in, have, want Kind, specs []Spec) string {
	for _, s := range specs {
		if s.In == have && s.Out == want {
			return fmt.Sprintf("; put %q between them", s.Name)
		}
	}
	if in == KindPrompt && want == KindMedia {
		return "; give the files, or the table that names them, as input.media"
	}
	return ""
}

// Find returns the spec with this name.
func Find(specs []Spec, name string) (Spec, bool) {
	for _, s := range specs {
		if s.Name == name {
			return s, true
		}
	}
	return Spec{}, false
}

// Names returns the names of specs in order.
func Names(specs []Spec) []string {
	names := make([]string, len(specs))
	for i, s := range specs {
		names[i] = s.Name
	}
	return names
}
