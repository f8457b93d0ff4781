package pipelines

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"latentbeam/internal/config"
	"latentbeam/internal/engine"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/catalog"
	"latentbeam/testdata/tiny"
)

// openModel opens the model that the configuration names.
func openModel(cfg *config.Config) (*stages.Model, error) {
	m := cfg.Model
	var model *stages.Model
	var err error
	switch {
	case m.Path == "tiny":
		model, err = stages.EmbeddedModel("tiny", tiny.Files())
	case m.Path != "":
		model, err = stages.OpenModel(m.Path)
	default:
		dirs := map[string]string{}
		for name, dir := range map[string]string{
			"text_encoder": m.TextEncoder, "transformer": m.Transformer, "vae": m.VAE,
		} {
			if dir != "" {
				dirs[name] = dir
			}
		}
		model, err = stages.OpenComponents(dirs)
	}
	if err != nil {
		return nil, cfg.Errorf("model", "%v", err)
	}
	model.Guess = catalog.Guess
	return model, nil
}

// openSteps checks that the stages fit together and opens them.
func openSteps(cfg *config.Config, specs []stages.Spec, model *stages.Model) ([]stages.Step, error) {
	kind, _ := cfg.Input.Source()
	names := make([]string, len(cfg.Stages))
	for i, s := range cfg.Stages {
		names[i] = s.Name
	}
	seams, at, err := stages.Fit(sourceKinds[kind], names, specs)
	if err != nil {
		problem := cfg.Errorf(fmt.Sprintf("stages.%d", at), "%v", err)
		_, known := stages.Find(specs, names[at])
		if near := config.Near(names[at], stages.Names(specs)); !known && near != "" {
			problem = problem.WithFix("did you mean %s?", near)
		}
		return nil, problem
	}
	steps := make([]stages.Step, len(names))
	for i, s := range cfg.Stages {
		spec, _ := stages.Find(specs, s.Name)
		var decoded any
		stage, err := spec.New(model, func(target any) error {
			decoded = target
			return s.Options.Decode(target)
		})
		if err != nil {
			var located *config.Error
			if errors.As(err, &located) {
				return nil, located
			}
			path := fmt.Sprintf("stages.%d", i)
			var option *stages.OptionError
			if errors.As(err, &option) {
				path += "." + option.Key
			}
			return nil, cfg.Errorf(path, "%v", err)
		}
		if decoded == nil { // a stage without options still refuses some
			decoded = &struct{}{}
			if err := s.Options.Decode(decoded); err != nil {
				return nil, err
			}
		}
		options, err := json.Marshal(decoded) // with its defaults, so that keys depend on what options mean
		if err != nil {
			return nil, fmt.Errorf("stage %s: %w", s.Name, err)
		}
		steps[i] = stages.Step{Name: s.Name, Spec: spec, Options: options, Gives: seams[i+1], Stage: stage}
	}
	return steps, checkWrites(cfg, seams)
}

// writes maps the parts of output.write to the kind that must pass the job, and how to get it.
var writes = []struct {
	part string
	kind stages.Kind
	fix  string
}{
	{"video", stages.KindVideo, "add `- encode_video: {}` to stages"},
	{"latents", stages.KindLatents, "add `- denoise: {}` to stages (`- encode_vae: {}` where the input is media)"},
	{"embeddings", stages.KindText, "add `- encode_text: {}` to stages"},
}

// checkWrites refuses to promise a table that no stage fills.
func checkWrites(cfg *config.Config, seams []stages.Kind) error {
	for _, w := range writes {
		if cfg.Output.Writes(w.part) && !slices.Contains(seams[1:], w.kind) {
			return cfg.Errorf("output.write", "nothing in this job makes %s", w.part).WithFix("%s", w.fix)
		}
	}
	return nil
}

// defaultsOf is what rows are filled up with: the configuration, then the model's own defaults.
func defaultsOf(cfg *config.Config, model *stages.Model) schemas.PromptRow {
	d := model.Index.Defaults
	return cfg.Defaults.Row().WithDefaults(schemas.PromptRow{
		Height: d.Height, Width: d.Width, NumFrames: d.NumFrames, FPS: d.FPS,
		NumInferenceSteps: d.NumInferenceSteps, GuidanceScale: d.GuidanceScale,
		MaxSequenceLength: d.MaxSequenceLength,
	})
}

// checkDefaults lets every stage look at a row that says nothing itself, so that an impossible size in
// the configuration is reported with its line before any work.
func checkDefaults(cfg *config.Config, steps []stages.Step, defaults schemas.PromptRow) error {
	kind, _ := cfg.Input.Source()
	if kind != config.PromptInput && kind != config.MediaInput {
		return nil // the tables carry the parameters
	}
	defaults, err := defaults.Sized()
	if err != nil {
		return nil // half a size, which rows complete
	}
	for _, s := range steps {
		if err := s.Check(&defaults); err != nil {
			name, _, _ := strings.Cut(err.Error(), " ")
			return cfg.Errorf("defaults."+name, "%s: %v", s.Name, err)
		}
	}
	if err := engine.SameLatents(steps, &defaults); err != nil {
		return cfg.Errorf("model", "%v", err)
	}
	return nil
}
