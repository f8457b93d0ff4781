package weights

import (
	"fmt"
	"regexp"
	"strings"

	"latentbeam/stages/weights/safetensors"
)

// Family is a kind of model as its checkpoints show it. The list of all is in stages/catalog.
type Family struct {
	Component string // the directory that it has in a model, such as "transformer"
	// Guess returns a config.json for the model that has these tensors, nil where they are not of this family.
	// An error says what they do not tell of a model that is.
	Guess func(t Shapes) ([]byte, error)
	// Load loads the model that config describes, and returns its name for people. Its error is about config;
	// what does not fit of the tensors is in w's Misfits.
	Load func(config []byte, w *Weights) (name string, err error)
	// Layouts are those that other code has published models of the family in; nil: none is known.
	Layouts []Layout
}

// Layout is how other code names the tensors of a model.
type Layout struct {
	Mark  string // a tensor that only checkpoints of this layout have
	Strip string // a prefix that names may have
	Rules []Rule // the first that matches a name changes it; others stay
}

// Rule changes a name.
type Rule struct {
	Pattern *regexp.Regexp
	To      string // with $1 and so on
}

// Rules makes rules of pairs of a pattern and what it becomes.
func Rules(pairs ...string) (out []Rule) {
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, Rule{regexp.MustCompile("^" + pairs[i] + "$"), pairs[i+1]})
	}
	return out
}

// Names returns the names that tensors have here by those of the layout, nil where they are of another.
func (l Layout) Names(s Shapes) map[string]string {
	if !s.Has(l.Mark) && (l.Strip == "" || !s.Has(l.Strip+l.Mark)) {
		return nil
	}
	out := make(map[string]string, len(s))
	for name := range s {
		out[name] = l.name(strings.TrimPrefix(name, l.Strip))
	}
	return out
}

func (l Layout) name(name string) string {
	for _, r := range l.Rules {
		if r.Pattern.MatchString(name) {
			return r.Pattern.ReplaceAllString(name, r.To)
		}
	}
	return name
}

// Loader makes a Family's Load of a model's own functions; name describes a configuration for people.
func Loader[C, M any](parse func([]byte) (C, error), load func(C, *Weights) (*M, error), name func(C) string) func(
	[]byte, *Weights) (string, error) {
	return func(config []byte, w *Weights) (string, error) {
		c, err := parse(config)
		if err != nil {
			return "", err
		}
		_, err = load(c, w)
		if len(w.Misfits()) > 0 {
			err = nil // it is about tensors, and w keeps it
		}
		return name(c), err
	}
}

// Shapes is what a checkpoint tells of itself: the shape of each tensor by name.
type Shapes map[string][]int

// ShapesOf returns the shapes of tensors.
func ShapesOf(tensors []safetensors.TensorInfo) Shapes {
	out := make(Shapes, len(tensors))
	for _, t := range tensors {
		out[t.Name] = t.Shape
	}
	return out
}

// Has reports whether there is a tensor of that name.
func (s Shapes) Has(name string) bool {
	_, ok := s[name]
	return ok
}

// Dim returns the length of an axis of the tensor, 0 where there is none.
func (s Shapes) Dim(name string, axis int) int {
	if shape := s[name]; axis < len(shape) {
		return shape[axis]
	}
	return 0
}

// Count returns how many tensors there are whose names are format with 0, 1, 2 and so on, without a gap.
func (s Shapes) Count(format string) int {
	n := 0
	for s.Has(fmt.Sprintf(format, n)) {
		n++
	}
	return n
}
