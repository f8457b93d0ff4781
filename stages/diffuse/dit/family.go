package dit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"latentbeam/stages"
	"latentbeam/stages/diffuse/sampler"
	"latentbeam/stages/weights"
)

// Family is a kind of network, as the stage finds it. The list of all is in stages/catalog.
type Family struct {
	Name    string // such as "STDiT"
	Models  string // that were published of it, such as "Open-Sora 1.0 to 1.3"
	Options string // names of the options that only it has, for the one line of the stage; "": none
	// Checkpoint recognises the weights by their tensors, for `inspect`, `convert` and files without a config.json; zero: they
	// are not recognised.
	Checkpoint weights.Family
	// Process is what the networks were trained on, for the solvers of scheduler_config.json; "": the family reads no such file.
	Process sampler.Process
	// Pipelines are the classes that model_index.json names for whole models of the family, and what each does, such as
	// "text to video".
	Pipelines map[string]string
	// Recognise reports whether a config.json is that of a network of this family.
	Recognise func(config []byte) bool
	// Open reads config.json and decodes the options of the job, into a struct that embeds Options.
	Open func(configs Configs, options stages.Options) (Network, error)
}

// Configs is what the files of a model say of its denoiser.
type Configs struct {
	Config    []byte       // config.json of the denoiser
	Scheduler []byte       // scheduler/scheduler_config.json; nil: there is none
	Index     stages.Index // model_index.json; zero: there is none
	// Solvers are those that the program adds to the ones of this module.
	Solvers []sampler.Solver
}

// Open opens the network that a config.json of a model's denoiser describes.
func Open(families []Family, solvers []sampler.Solver, m *stages.Model, config []byte, options stages.Options) (Network, error) {
	scheduler, err := m.ReadFile("scheduler/scheduler_config.json")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	class, err := ClassName(config)
	if err != nil {
		return nil, err
	}
	var titles []string
	for _, f := range families {
		if f.Recognise(config) {
			return f.Open(Configs{Config: config, Scheduler: scheduler, Index: m.Index, Solvers: solvers}, options)
		}
		titles = append(titles, f.Title())
	}
	return nil, fmt.Errorf("parse config.json of the denoiser: the architecture is %q; the denoiser runs %s",
		class, strings.Join(titles, ", "))
}

// Title names the family for people.
func (f Family) Title() string { return fmt.Sprintf("%s (%s)", f.Name, f.Models) }

// ClassName returns what a config.json says of the architecture, "" where it says nothing.
func ClassName(config []byte) (string, error) {
	var id struct {
		ClassName     stages.ClassName `json:"_class_name"`
		ModelType     string           `json:"model_type"`
		Architectures []string         `json:"architectures"`
	}
	if err := json.Unmarshal(config, &id); err != nil {
		return "", fmt.Errorf("parse config.json of the denoiser: %w", err)
	}
	switch {
	case len(id.Architectures) > 0:
		return id.Architectures[0], nil
	case id.ClassName != "":
		return string(id.ClassName), nil
	}
	return id.ModelType, nil
}
