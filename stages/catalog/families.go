package catalog

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"latentbeam/stages/clip"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/diffuse/sampler"
	"latentbeam/stages/osplan"
	"latentbeam/stages/score"
	"latentbeam/stages/stdit"
	"latentbeam/stages/t5"
	"latentbeam/stages/vae"
	"latentbeam/stages/wan"
	"latentbeam/stages/weights"
	"latentbeam/stages/weights/safetensors"
)

// added are the denoisers and solvers that the program added to the ones of this module.
var added struct {
	denoisers []dit.Family
	solvers   []sampler.Solver
}

// Add adds denoisers and solvers of another module to the catalog. Call it before a job is opened. Names that exist are
// refused.
func Add(denoisers []dit.Family, solvers []sampler.Solver) error {
	names := slices.Concat(sampler.WanSolvers(), sampler.VPSolvers())
	for _, s := range added.solvers {
		names = append(names, s.Name)
	}
	for _, s := range solvers {
		if s.Name == "" || s.Recipe == nil || s.Process == "" || slices.Contains(names, s.Name) {
			return fmt.Errorf("the solver %q needs a new name, a process and a recipe; taken are %s", s.Name, strings.Join(names, ", "))
		}
		names = append(names, s.Name)
	}
	for _, d := range denoisers {
		if d.Name == "" || d.Recognise == nil || d.Open == nil ||
			slices.ContainsFunc(Denoisers(), func(other dit.Family) bool { return other.Name == d.Name }) {
			return fmt.Errorf("the denoiser %q needs a new name, Recognise and Open", d.Name)
		}
		added.denoisers = append(added.denoisers, d)
	}
	added.solvers = append(added.solvers, solvers...)
	return nil
}

// Families returns every family of models whose checkpoints can be recognised: encoders, autoencoders, models of measures, and
// denoisers. A whole CLIP (for measures) comes before the encoder that is a part of it.
func Families() []weights.Family {
	all := append([]weights.Family{t5.Family(), vae.Family()}, append(score.Families(), clip.Family())...)
	for _, d := range Denoisers() {
		if d.Checkpoint.Guess != nil {
			all = append(all, d.Checkpoint)
		}
	}
	return all
}

// Denoisers returns the families of networks for the stage `denoise`. They are asked in this order whether a config.json
// belongs to them. To add one, write its dit.Family and add it here.
func Denoisers() []dit.Family {
	return append([]dit.Family{stdit.Denoiser(), wan.Denoiser(), osplan.Denoiser()}, added.denoisers...)
}

// Guess makes a config.json from the tensors of a component that was published without one.
func Guess(component string, file *safetensors.File) ([]byte, error) {
	shapes := weights.ShapesOf(file.Infos())
	for _, f := range Families() {
		switch config, err := f.Guess(shapes); {
		case err != nil:
			return nil, err
		case config != nil && f.Component != component:
			return nil, fmt.Errorf("they are those of a %s, not of a %s", f.Component, component)
		case config != nil:
			return config, nil
		}
	}
	return nil, errors.New("they are of no model known here")
}

// Names maps the tensor names of another program's layout to ours, nil if the layout is not known.
func Names(tensors []safetensors.TensorInfo) map[string]string {
	shapes := weights.ShapesOf(tensors)
	for _, f := range Families() {
		for _, l := range f.Layouts {
			if names := l.Names(shapes); names != nil {
				return names
			}
		}
	}
	return nil
}

// OtherNames returns other names of a component's tensor, for adapters.
func OtherNames(component, tensor string) []string {
	if !strings.HasPrefix(component, "transformer") {
		return nil
	}
	return []string{wan.OriginalName(tensor)}
}

// Finding is the result of Recognize.
type Finding struct {
	Component string // "" if no known model has these tensors
	Name      string // for people
	Guessed   bool   // the configuration was derived from the tensors
	Wanted    int    // number of tensors of the model
	Misfits   []weights.Misfit
}

// Recognize finds the model that tensors belong to by their names and shapes, and what does not fit. config is its config.json,
// nil if there is none. The error says why the configuration cannot be used.
func Recognize(tensors []safetensors.TensorInfo, config []byte) (Finding, error) {
	shapes := weights.ShapesOf(tensors)
	for _, f := range Families() {
		guessed, err := f.Guess(shapes)
		if guessed == nil && err == nil {
			continue
		}
		found := Finding{Component: f.Component, Guessed: config == nil}
		if config == nil {
			config = guessed
		} else {
			err = nil // config has what the tensors do not tell
		}
		if err != nil {
			return found, err
		}
		w := weights.Outline(tensors)
		if found.Name, err = f.Load(config, w); err != nil {
			return found, err
		}
		found.Wanted, found.Misfits = len(w.Requested()), w.Misfits()
		return found, nil
	}
	return Finding{}, nil
}
