package stages

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
)

// Lora is an adapter of low rank that is added to the weights of a denoiser.
type Lora struct {
	Path   string // of the file, or of a directory with one
	Scale  float64
	Expert string // of ExpertBoth, ExpertHigh and ExpertLow
	Skip   bool   // layers that the model does not have are left out; else they are an error

	number int    // in the list, from 0
	name   string // for people: the repository, or the last name of the path
}

// Adapted is an adapter as it was added to the weights of a denoiser.
type Adapted struct {
	File   string  `json:"file"` // its name, without a place
	Scale  float64 `json:"scale"`
	Expert string  `json:"expert,omitempty"` // "" for both
	Digest string  `json:"digest"`           // of its tensors
	Text   string  `json:"-"`                // what was added, for people
	Number int     `json:"-"`                // in the list, from 0
}

// LoraError is what is wrong with an adapter of the list.
type LoraError struct {
	Number int // from 0
	error
}

// Unwrap returns the error itself.
func (e *LoraError) Unwrap() error { return e.error }

// Fault is an error of this adapter.
func (l Lora) Fault(err error) error { return &LoraError{l.number, err} }

// Which of a model's two denoisers an adapter is for. In a model of one denoiser an adapter is for both.
const (
	ExpertBoth = "both"
	ExpertHigh = "high" // the one for much noise
	ExpertLow  = "low"
)

// The directories of the denoisers.
const (
	denoiser       = "transformer"
	secondDenoiser = "transformer_2"
)

// Adapted notes what became of an adapter. It is called once for each denoiser that it is for.
func (m *Model) Adapted(l Lora, text, digest string) {
	one := Adapted{File: l.name, Scale: l.Scale, Expert: l.Expert, Digest: digest, Text: text, Number: l.number}
	if l.Expert == ExpertBoth {
		one.Expert = ""
	}
	if !slices.Contains(m.adapted, one) {
		m.adapted = append(m.adapted, one)
	}
}

// Adapters returns the adapters that were added, in the order of the list. One that became something else in each of two
// denoisers is there twice.
func (m *Model) Adapters() []Adapted {
	return slices.SortedStableFunc(slices.Values(m.adapted), func(a, b Adapted) int { return cmp.Compare(a.Number, b.Number) })
}

// AddLoras gives the model adapters. A path may be the name of a repository that was pulled.
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
