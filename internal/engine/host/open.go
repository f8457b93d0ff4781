package host

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"latentbeam/internal/config"
	"latentbeam/internal/config/document"
	"latentbeam/internal/engine/keys"
	"latentbeam/internal/storage/source"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
	"latentbeam/stages/catalog"
	"latentbeam/testdata/tiny"
)

// Open opens the stages of a job from the disk of this host. An error of the configuration or the model names its
// place in the file.
func Open(cfg *config.Config, specs []stages.Spec) (*Stages, error) { return open(cfg, specs, false) }

// OpenToPlan opens the stages of a job that is planned and not run. It accepts a component that has a config.json and no weights
// (see Stages.Lacks).
func OpenToPlan(cfg *config.Config, specs []stages.Spec) (*Stages, error) {
	return open(cfg, specs, true)
}

func open(cfg *config.Config, specs []stages.Spec, planOnly bool) (*Stages, error) {
	model, err := openModel(cfg)
	if err != nil {
		return nil, err
	}
	model.PlanOnly = planOnly
	if err := complete(cfg, model); err != nil {
		return nil, err
	}
	cfg.Stages, cfg.Extra = append(cfg.Stages, cfg.Extra...), nil
	steps, err := openSteps(cfg, specs, model)
	if err != nil {
		return nil, err
	}
	if err := cfg.SetLength(stages.NamingOf(steps), defaultsOfRows(cfg, model, steps).FPS); err != nil {
		return nil, err
	}
	terms := model.Terms()
	if err := checkLicences(cfg, terms, steps); err != nil {
		closeSteps(steps)
		return nil, err
	}
	return &Stages{Config: cfg, Model: model.Name, Lacks: model.Lacks(), Terms: terms, Adapters: model.Adapters(), Steps: steps, Defaults: defaultsOfRows(cfg, model, steps)}, nil
}

// ownLicence is the licence of the built-in model, which is part of this program.
const ownLicence = "apache-2.0"

// checkLicences refuses weights whose licences the job does not allow.
func checkLicences(cfg *config.Config, terms []stages.Terms, steps []stages.Step) error {
	if len(cfg.RequireLicence) == 0 {
		return nil
	}
	allowed := func(licence string) bool {
		return slices.ContainsFunc(cfg.RequireLicence, func(l string) bool { return strings.EqualFold(l, licence) })
	}
	if cfg.Model.Path == "tiny" {
		terms = append(terms, stages.Terms{Components: []string{"tiny"}, Licence: ownLicence})
	}
	for _, s := range steps {
		if s.Spec.Program != nil {
			terms = append(terms, stages.Terms{Components: []string{"program " + s.Name}, Licence: stages.UnknownLicence})
		}
	}
	var wrong []string
	for _, t := range terms {
		if !allowed(t.Licence) {
			wrong = append(wrong, strings.Join(t.Components, ", ")+": "+t.Licence)
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return cfg.Errorf("require_licence", "the job allows weights of %s, and these have others: %s", strings.Join(cfg.RequireLicence, ", "),
		strings.Join(wrong, "; ")).WithFix("take other weights, or add the licence; \"unknown\" is for weights whose README.md and LICENSE name none, " +
		"and for programs, whose models nobody knows here")
}

// complete adds the model's stages to a job that lists none.
func complete(cfg *config.Config, model *stages.Model) error {
	if cfg.Given("stages") || SourceKind(cfg) == stages.KindVideo && len(cfg.Extra) > 0 {
		return nil
	}
	names, err := catalog.StagesOf(model.Index, SourceKind(cfg))
	if errors.Is(err, catalog.ErrUnsupported) { // a list of stages would not help
		return cfg.Errorf("model", "%v", err).WithFix("name a model of one of these classes")
	}
	if err != nil {
		return cfg.Errorf("model", "the job lists no stages, and model %s does not say them: %v", model.Name, err).
			WithFix("add stages: [encode_text, denoise, decode_vae, encode_video]")
	}
	return cfg.Complete("[" + strings.Join(names, ", ") + "]")
}

// sourceKinds maps each kind of input to the kind of data that the first stage must accept.
var sourceKinds = map[string]stages.Kind{
	config.PromptInput:    stages.KindPrompt,
	config.MediaInput:     stages.KindMedia,
	config.VideoInput:     stages.KindVideo,
	config.EmbeddingInput: stages.KindText,
	config.LatentInput:    stages.KindLatents,
}

// SourceKind returns the kind of data that the input gives to the first stage.
func SourceKind(cfg *config.Config) stages.Kind {
	kind, _ := cfg.Input.Source()
	return sourceKinds[kind]
}

// noModel is the model of a job whose stages need none, such as programs.
const noModel = "none"

// openModel opens the model that the configuration names.
func openModel(cfg *config.Config) (*stages.Model, error) {
	m := cfg.Model
	var model *stages.Model
	var err error
	switch {
	case m.Path == "tiny":
		model, err = stages.EmbeddedModel("tiny", tiny.Files())
	case m.Path == noModel:
		model, err = stages.EmbeddedModel(noModel, embed.FS{})
	case m.Path != "":
		var dir string
		if dir, err = source.Model(context.Background(), m.Path); err == nil {
			model, err = stages.OpenModel(dir)
		}
		if err == nil {
			var dirs map[string]string
			if dirs, err = componentDirs(m); err == nil {
				err = model.Replace(dirs)
			}
		}
	default:
		var dirs map[string]string
		if dirs, err = componentDirs(m); err == nil {
			model, err = stages.OpenComponents(dirs)
		}
	}
	if fault.ExitCode(err) == fault.ExitTryAgain { // the network failed, or the disk has no room for a copy
		return nil, err
	}
	if err != nil {
		return nil, cfg.Errorf("model", "%v", err)
	}
	model.Guess, model.Names, model.OtherNames = catalog.Guess, catalog.Names, catalog.OtherNames
	loras, err := lorasOf(m)
	if err == nil {
		err = model.AddLoras(loras)
	}
	if fault.ExitCode(err) == fault.ExitTryAgain {
		return nil, err
	}
	if err != nil {
		return nil, located(cfg, 0, err)
	}
	return model, nil
}

// lorasOf returns the adapters that the configuration names, with their defaults.
func lorasOf(m config.Model) (out []stages.Lora, err error) {
	for i, l := range m.Loras {
		path, err := source.Model(context.Background(), l.Path)
		if err != nil {
			return nil, fmt.Errorf("model.loras[%d]: %w", i, err)
		}
		one := stages.Lora{Path: path, Scale: 1, Expert: cmp.Or(l.Expert, stages.ExpertBoth),
			Skip: l.Unmatched == "skip"}
		if l.Scale != nil {
			one.Scale = *l.Scale
		}
		out = append(out, one)
	}
	return out, nil
}

// componentDirs returns, by component, the local directory of each component that the configuration names. If a component is
// copied from an address, the directories in beside are copied too: some hubs keep the tokenizer beside the text encoder.
func componentDirs(m config.Model) (map[string]string, error) {
	dirs := map[string]string{}
	for _, c := range []struct {
		name, at string
		beside   []string
	}{{"text_encoder", m.TextEncoder, []string{"tokenizer"}}, {"transformer", m.Transformer, nil}, {"transformer_2", m.Transformer2, nil},
		{"image_encoder", m.ImageEncoder, []string{"image_processor"}}, {"vae", m.VAE, nil}} {
		if c.at == "" {
			continue
		}
		dir, err := source.Model(context.Background(), c.at, c.beside...)
		if err != nil {
			return nil, err
		}
		dirs[c.name] = dir
	}
	return dirs, nil
}

// openSteps checks that the stages fit together and opens them.
func openSteps(cfg *config.Config, specs []stages.Spec, model *stages.Model) ([]stages.Step, error) {
	names, own, err := resolve(cfg, specs)
	if err != nil {
		return nil, err
	}
	specs = slices.Concat(own, slices.DeleteFunc(slices.Clone(specs), func(s stages.Spec) bool {
		return slices.ContainsFunc(own, func(o stages.Spec) bool { return o.Name == s.Name })
	}))
	seams, at, err := stages.Fit(SourceKind(cfg), names, specs)
	if err != nil {
		problem := cfg.Errorf(fmt.Sprintf("stages.%d", at), "%v", err)
		_, known := stages.Find(specs, names[at])
		if near := config.Near(names[at], stages.Names(specs)); !known && near != "" {
			problem = problem.WithFix("did you mean %s?", near)
		}
		return nil, problem
	}
	steps := make([]stages.Step, len(names))
	of := make([]stages.Spec, len(names))
	for i, name := range names {
		of[i], _ = stages.Find(specs, name)
	}
	opened := false
	defer func() {
		if !opened {
			closeSteps(steps)
		}
	}()
	for i, s := range cfg.Stages {
		spec, _ := stages.Find(specs, names[i])
		spec.Name = s.Name
		var decoded any
		stage, err := spec.New(model, func(target any) error {
			decoded = target
			return s.Options.Decode(target)
		})
		if err != nil {
			return nil, located(cfg, i, err)
		}
		if decoded == nil { // the stage has no options: any option in the job is an error
			decoded = &struct{}{}
			if err := s.Options.Decode(decoded); err != nil {
				return nil, err
			}
		}
		options, err := json.Marshal(decoded) // with defaults, so that writing a default in the job changes no key
		if err != nil {
			return nil, fmt.Errorf("stage %s: %w", s.Name, err)
		}
		steps[i] = stages.Step{Name: names[i], Spec: spec, Options: options, Gives: seams[i+1], MeasuresOnly: onlyLooks(cfg, of, i), Stage: stage}
	}
	if err := checkWrites(cfg, seams); err != nil {
		return nil, err
	}
	if err := checkReads(cfg, steps); err != nil {
		return nil, err
	}
	opened = true
	return steps, nil
}

// newerStages are stages that were added when users could already name programs. An older job may use such a name for a
// program, so resolve allows it.
var newerStages = []string{"score"}

// resolve returns the names of the steps, and the specs of entries whose options define their own spec, such as programs.
func resolve(cfg *config.Config, specs []stages.Spec) (names []string, own []stages.Spec, err error) {
	for i, s := range cfg.Stages {
		spec, _ := stages.Find(specs, s.Name)
		name := s.Name
		if spec.Of != nil {
			if spec, err = spec.Of(s.Options.Decode); err != nil {
				return nil, nil, located(cfg, i, err)
			}
			name = s.Label()
			if _, taken := stages.Find(specs, name); taken && name != s.Name && !slices.Contains(newerStages, name) {
				return nil, nil, cfg.Errorf(fmt.Sprintf("stages.%d.name", i), "name: there is a stage %q: give another name", name)
			}
			spec.Name = name
			own = append(own, spec)
		}
		if slices.Contains(names, name) {
			return nil, nil, cfg.Errorf(fmt.Sprintf("stages.%d", i), "stage %q is in the list twice", name)
		}
		names = append(names, name)
	}
	return names, own, nil
}

// located returns err with the place of entry i of the stages in the file.
func located(cfg *config.Config, i int, err error) error {
	var known *document.Error
	if errors.As(err, &known) {
		return known
	}
	var adapter *stages.LoraError
	if errors.As(err, &adapter) {
		return cfg.Errorf(fmt.Sprintf("model.loras.%d", adapter.Number), "%v", err)
	}
	path := fmt.Sprintf("stages.%d", i)
	var option *stages.OptionError
	if errors.As(err, &option) {
		return cfg.Errorf(path+"."+option.Key, "%v", err).WithFix("%s", option.Fix)
	}
	return cfg.Errorf(path, "%v", err)
}

// closeSteps closes the stages that are open.
func closeSteps(steps []stages.Step) {
	for _, s := range steps {
		if s.Stage == nil {
			continue
		}
		if end := s.Capabilities().Close; end != nil {
			end()
		}
	}
}

// writes maps each part of output.write to the kind that a stage must produce, and to the advice if none does.
var writes = []struct {
	part string
	kind stages.Kind
	fix  string
}{
	{"video", stages.KindVideo, "add `- encode_video: {}` to stages"},
	{"latents", stages.KindLatents, "add `- denoise: {}` to stages (`- encode_vae: {}` where the input is media)"},
	{"embeddings", stages.KindText, "add `- encode_text: {}` to stages"},
}

// checkWrites refuses an output.write that no stage produces.
func checkWrites(cfg *config.Config, seams []stages.Kind) error {
	for _, w := range writes {
		if cfg.Output.Writes(w.part) && !slices.Contains(seams[1:], w.kind) {
			fix := w.fix
			if made := writable(seams); len(made) > 0 {
				fix += fmt.Sprintf(", or keep what this job makes: `write: [%s]` in output", strings.Join(made, ", "))
			}
			return cfg.Errorf("output.write", "nothing in this job makes %s", w.part).WithFix("%s", fix)
		}
	}
	return nil
}

// writable lists the parts of output.write that the job's stages produce.
func writable(seams []stages.Kind) (parts []string) {
	for _, w := range writes {
		if slices.Contains(seams[1:], w.kind) {
			parts = append(parts, w.part)
		}
	}
	return parts
}

// checkReads refuses a stage that needs a reading which no earlier stage gives. Readings of programs are not known in advance, so
// stages after a program pass.
func checkReads(cfg *config.Config, steps []stages.Step) error {
	var given []string
	for i, s := range steps {
		for _, name := range s.Capabilities().Reads {
			if slices.Contains(given, name) || slices.ContainsFunc(steps[:i], func(s stages.Step) bool { return s.Spec.Program != nil }) {
				continue
			}
			problem := cfg.Errorf(fmt.Sprintf("stages.%d", i), "%s: no stage before it reads %q", s.Name, name)
			if near := config.Near(name, given); near != "" {
				return problem.WithFix("did you mean %s?", near)
			}
			return problem.WithFix("put a stage before it that does, such as `- quality: {}` before encode_vae")
		}
		given = append(given, s.Spec.Readings...)
	}
	return nil
}

// Alike returns the rule by which rows that look like earlier rows are dropped; nil: no rule.
func (h *Stages) Alike() *stages.Alike {
	for _, s := range h.Steps {
		if alike := s.Capabilities().Alike; alike != nil {
			return alike
		}
	}
	return nil
}

// Limits returns the limits of readings that all stages set.
func (h *Stages) Limits() stages.Limits {
	all := stages.Limits{}
	for _, s := range h.Steps {
		maps.Copy(all, s.Capabilities().Limits)
	}
	return all
}

// Keep returns the kinds that a job publishes.
func Keep(cfg *config.Config) map[stages.Kind]bool {
	k := map[stages.Kind]bool{}
	for _, w := range writes {
		k[w.kind] = cfg.Output.Writes(w.part)
	}
	return k
}

// Varying names the stages whose results may be others when a row is computed again.
func (h *Stages) Varying() (names []string) {
	for _, s := range h.Steps {
		if s.Capabilities().Varies {
			names = append(names, s.Name)
		}
	}
	return names
}

// Programs names the stages that are programs.
func (h *Stages) Programs() (names []string) {
	for _, s := range h.Steps {
		if s.Spec.Program != nil {
			names = append(names, s.Name)
		}
	}
	return names
}

// Rules returns the rules of the keys of rows that are computed in a numeric class: those of one of several shards, where shards is
// more than 1. contents knows the digests of media.
func (h *Stages) Rules(class string, shard, shards int, contents *source.Contents) (keys.Rules, error) {
	r := keys.Rules{
		Defaults: h.Defaults, Naming: stages.NamingOf(h.Steps), Input: SourceKind(h.Config), Steps: h.Steps, Class: class,
		OneScale: !h.Config.ScalesApart(), Shard: shard, Shards: shards, Contents: contents,
	}
	if seed := h.Config.Defaults.Seed; seed != nil {
		r.JobSeed = *seed
	}
	return r, r.Seal()
}
