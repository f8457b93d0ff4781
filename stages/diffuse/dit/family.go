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

// Family is a kind of network. stages/catalog lists all families.
type Family struct {
	Name    string // such as "STDiT"
	Models  string // the published models, such as "Open-Sora 1.0 to 1.3"
	Options string // names of options that only this family has, for the stage's one-line description; "": none
	// Checkpoint recognises weights by their tensors, for `inspect`, `convert` and files without a config.json. The zero value
	// recognises none.
	Checkpoint weights.Family
	// Process is the training process of the networks. It selects the solvers for scheduler_config.json; "": the family does
	// not read that file.
	Process sampler.Process
	// Pipelines maps a class name in model_index.json, for whole models of the family, to what the model does, such as "text to
	// video".
	Pipelines map[string]string
	// Recognise reports whether a config.json belongs to a network of this family.
	Recognise func(config []byte) bool
	// Open reads config.json and decodes the job's options into a struct that embeds Options.
	Open func(configs Configs, options stages.Options) (Network, error)
}

// Configs are the files of a model that concern its denoiser.
type Configs struct {
	Config    []byte       // config.json of the denoiser
	Scheduler []byte       // scheduler/scheduler_config.json; nil: there is none
	Index     stages.Index // model_index.json; zero: there is none
	// Solvers are the program's own samplers, in addition to this module's.
	Solvers []sampler.Solver
}

// Open opens the network that the config.json of a model's denoiser describes.
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

// Title returns the name of the family for people.
func (f Family) Title() string { return fmt.Sprintf("%s (%s)", f.Name, f.Models) }

// ClassName returns the architecture in a config.json, "" if there is none.
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
