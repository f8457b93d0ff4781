package host

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"latentbeam/internal/config"
	"latentbeam/internal/engine/keys"
	"latentbeam/stages"
	"latentbeam/stages/exec"
)

// onlyLooks reports whether stage number i of a job only measures input media or at the published video. Such a stage can also run
// later, on a finished output.
func onlyLooks(cfg *config.Config, specs []stages.Spec, i int) bool {
	if !specs[i].MeasuresOnly {
		return false
	}
	input := SourceKind(cfg)
	have, made := input, false
	for _, s := range specs[:i] {
		have = cmp.Or(s.Out, have)
		made = made || s.Out == stages.KindMedia && !s.MeasuresOnly
	}
	switch cmp.Or(specs[i].In, have) {
	case stages.KindMedia:
		return input == stages.KindMedia && !made
	case stages.KindVideo:
		return cfg.Output.Writes("video") &&
			!slices.ContainsFunc(specs[i+1:], func(s stages.Spec) bool { return s.Out == stages.KindVideo && !s.MeasuresOnly })
	}
	return false
}

// LookedAt returns the stages of a job that only measure, in the form in which earlier releases included them in keys. A second list also
// has the programs that took and gave a video, because such a program may only have looked. It returns nil if there are none. It does
// not open the model.
func LookedAt(cfg *config.Config, specs []stages.Spec) (lists []keys.Looks, err error) {
	var of []stages.Spec
	for i, s := range cfg.Stages {
		spec, known := stages.Find(specs, s.Name)
		if !known {
			return nil, fmt.Errorf("unknown stage %q", s.Name)
		}
		if spec.Of != nil {
			if spec, err = spec.Of(s.Options.Decode); err != nil {
				return nil, located(cfg, i, err)
			}
		}
		of = append(of, spec)
	}
	program := func(s stages.Spec) bool { // may only have looked: old releases did not record that
		return s.Program != nil && !s.MeasuresOnly && s.In == s.Out && (s.In == stages.KindVideo || s.In == stages.KindMedia)
	}
	for _, programs := range []bool{false, true} {
		var list keys.Looks
		any, made := false, 0
		for i, spec := range of {
			if !spec.MeasuresOnly && (!programs || !program(spec)) {
				if !spec.Passive {
					made++
				}
				continue
			}
			one, err := looked(cfg, spec, i, made)
			if err != nil {
				return nil, err
			}
			any = any || one.Program != ""
			list = append(list, one)
		}
		if len(list) > 0 && any == programs {
			lists = append(lists, list)
		}
	}
	return lists, nil
}

// looked opens stage i and returns its form in earlier keys.
func looked(cfg *config.Config, spec stages.Spec, i, made int) (l keys.Looked, err error) {
	s := cfg.Stages[i]
	var decoded any = &struct{}{}
	stage, err := spec.New(nil, func(target any) error {
		decoded = target
		return s.Options.Decode(target)
	})
	if err != nil {
		return l, located(cfg, i, err)
	}
	can := stage.Capabilities()
	if can.Close != nil {
		defer can.Close()
	}
	l = keys.Looked{Before: made, Stage: s.Name, Version: spec.Version, Weights: stage.Digest(), Params: slices.Concat(spec.Params, can.Params),
		Measures: can.Measures}
	options, err := json.Marshal(decoded)
	if err != nil {
		return l, err
	}
	if spec.Program != nil {
		if options, err = exec.AsBefore(options); err != nil {
			return l, err
		}
		if !spec.MeasuresOnly {
			m, _ := exec.AsMeasure(stage)
			l.Measures, l.Program = []stages.Measure{m}, cmp.Or(s.Label(), s.Name)
		}
	}
	l.Options = string(options)
	return l, nil
}

// MeasuresOfVideos are the measures of the steps that look at published videos.
func MeasuresOfVideos(steps []stages.Step) (all []stages.Measure) {
	for _, s := range steps {
		if s.MeasuresOnly && s.Gives == stages.KindVideo && s.Spec.Program == nil {
			for _, m := range s.Capabilities().Measures {
				if len(m.Readings) > 0 {
					all = append(all, m)
				}
			}
		}
	}
	return all
}
