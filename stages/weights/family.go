package weights

import (
	"fmt"
	"regexp"
	"strings"

	"latentbeam/stages/weights/safetensors"
)

// Family describes how to recognise a kind of model by its checkpoint. stages/catalog lists all families.
type Family struct {
	Component string // directory of the component in a model, such as "transformer"
	// Guess returns a config.json for a model with these tensors, nil if they are not of this family. If they are, the error
	// names what they do not tell.
	Guess func(t Shapes) ([]byte, error)
	// Load loads the model that config describes, and returns its name for people. The error is about config; tensors that do
	// not fit are in w's Misfits.
	Load func(config []byte, w *Weights) (name string, err error)
	// Layouts are the layouts of other programs in which models of the family are published; nil: none is known.
	Layouts []Layout
}

// Layout describes the tensor names of another program.
type Layout struct {
	Mark  string // a tensor that exists only in this layout
	Strip string // a prefix that names may have
	Rules []Rule // the first rule that matches a name changes it; other names stay
}

// Rule renames tensors.
type Rule struct {
	Pattern string // regular expression of whole names
	To      string // may contain $1 and so on
}

// Rules makes rules from pairs of a pattern and a replacement.
func Rules(pairs ...string) (out []Rule) {
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, Rule{pairs[i], pairs[i+1]})
	}
	return out
}

// Names maps the tensor names of the layout to ours. It returns nil if the tensors have another layout.
func (l Layout) Names(s Shapes) map[string]string {
	if !s.Has(l.Mark) && (l.Strip == "" || !s.Has(l.Strip+l.Mark)) {
		return nil
	}
	patterns := make([]*regexp.Regexp, len(l.Rules)) // compiled here, because a program that starts needs few layouts
	for i, r := range l.Rules {
		patterns[i] = regexp.MustCompile("^" + r.Pattern + "$")
	}
	out := make(map[string]string, len(s))
	for name := range s {
		out[name] = l.name(strings.TrimPrefix(name, l.Strip), patterns)
	}
	return out
}

// name renames one tensor. patterns are those of the rules.
func (l Layout) name(name string, patterns []*regexp.Regexp) string {
	for i, p := range patterns {
		if p.MatchString(name) {
			return p.ReplaceAllString(name, l.Rules[i].To)
		}
	}
	return name
}

// Loader returns a Family's Load, made from a model's own functions. name describes a configuration for people.
func Loader[C, M any](parse func([]byte) (C, error), load func(C, *Weights) (*M, error), name func(C) string) func(
	[]byte, *Weights) (string, error) {
	return func(config []byte, w *Weights) (string, error) {
		c, err := parse(config)
		if err != nil {
			return "", err
		}
		_, err = load(c, w)
		if len(w.Misfits()) > 0 {
			err = nil // it is about tensors, and w has it
		}
		return name(c), err
	}
}

// Shapes has the shape of each tensor of a checkpoint by name.
type Shapes map[string][]int

// ShapesOf returns the shapes of tensors.
func ShapesOf(tensors []safetensors.TensorInfo) Shapes {
	out := make(Shapes, len(tensors))
	for _, t := range tensors {
		out[t.Name] = t.Shape
	}
	return out
}

// Has reports whether there is a tensor with this name.
func (s Shapes) Has(name string) bool {
	_, ok := s[name]
	return ok
}

// Dim returns the length of an axis of the tensor, 0 if there is none.
func (s Shapes) Dim(name string, axis int) int {
	if shape := s[name]; axis < len(shape) {
		return shape[axis]
	}
	return 0
}

// Count counts the tensors whose names are format with 0, 1, 2 and so on, up to the first gap.
func (s Shapes) Count(format string) int {
	n := 0
	for s.Has(fmt.Sprintf(format, n)) {
		n++
	}
	return n
}
