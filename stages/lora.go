package stages

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
)

// Lora is a low-rank adapter that is added to the weights of a denoiser.
type Lora struct {
	Path   string // of the file, or of a directory with one
	Scale  float64
	Expert string // ExpertBoth, ExpertHigh or ExpertLow
	Skip   bool   // ignore layers that the model does not have, instead of failing

	number int    // index in the list
	name   string // for people: the repository, or the last name of the path
}

// Adapted describes an adapter after it was added to the weights of a denoiser.
type Adapted struct {
	File   string  `json:"file"` // base name
	Scale  float64 `json:"scale"`
	Expert string  `json:"expert,omitempty"` // "" for both
	Digest string  `json:"digest"`           // of its tensors
	Text   string  `json:"-"`                // description of what was added, for people
	Number int     `json:"-"`                // index in the list
}

// LoraError is an error about one adapter of the list.
type LoraError struct {
	Number int // index in the list
	error
}

// Unwrap returns the wrapped error.
func (e *LoraError) Unwrap() error { return e.error }

// Fault returns err as an error about this adapter.
func (l Lora) Fault(err error) error { return &LoraError{l.number, err} }

// The values of Lora.Expert: which of a model's two denoisers an adapter is for. Models of one denoiser ignore it.
const (
	ExpertBoth = "both"
	ExpertHigh = "high" // the denoiser for high noise
	ExpertLow  = "low"
)

// The directories of the denoisers.
const (
	denoiser       = "transformer"
	secondDenoiser = "transformer_2"
)

// Adapted records that an adapter was added. It is called once for each denoiser that the adapter is for.
func (m *Model) Adapted(l Lora, text, digest string) {
	one := Adapted{File: l.name, Scale: l.Scale, Expert: l.Expert, Digest: digest, Text: text, Number: l.number}
	if l.Expert == ExpertBoth {
		one.Expert = ""
	}
	if !slices.Contains(m.adapted, one) {
		m.adapted = append(m.adapted, one)
	}
}

// Adapters returns the added adapters in the order of the list. An adapter that had different effects on the two denoisers is
// listed twice.
func (m *Model) Adapters() []Adapted {
	return slices.SortedStableFunc(slices.Values(m.adapted), func(a, b Adapted) int { return cmp.Compare(a.Number, b.Number) })
}

// AddLoras adds adapters to the model. A path may be the name of a repository that was pulled.
func (m *Model) AddLoras(loras []Lora) error {
	_, second := m.ReadFile(secondDenoiser + "/config.json")
	for i, l := range loras {
		l.number = i
		if second != nil && l.Expert != ExpertBoth {
			return l.Fault(fmt.Errorf("expert is %s, but the model has one denoiser: leave expert out", l.Expert))
		}
		path, repo := locate(l.Path)
		if repo == "" && path == l.Path {
			if fix := notFetched(path); fix != "" && !exists(path) {
				return l.Fault(fmt.Errorf("there is no %s%s", path, fix))
			}
		}
		l.Path, l.name = path, cmp.Or(repo, filepath.Base(path))
		m.Loras = append(m.Loras, l)
	}
	return nil
}

// LorasOf returns the adapters of a component.
func (m *Model) LorasOf(component string) []Lora {
	not := ExpertLow
	switch component {
	case denoiser:
	case secondDenoiser:
		not = ExpertHigh
	default:
		return nil
	}
	return slices.DeleteFunc(slices.Clone(m.Loras), func(l Lora) bool { return l.Expert == not })
}
