// Package explain reports the state of a row of a job, and why a run would compute it again.
package explain

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"latentbeam/internal/config"
	"latentbeam/internal/engine"
	"latentbeam/internal/results/audit"
	"latentbeam/internal/results/report"
	"latentbeam/internal/storage/ledger"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// Answer describes the state of a row and its reason.
type Answer struct {
	ID      string         `json:"id"`
	Sample  int            `json:"sample_index"`
	Source  string         `json:"source"` // place in the input, "prompts.csv:3"
	Key     string         `json:"key"`
	State   string         `json:"state"` // done, failed, unusable or new
	Why     string         `json:"why"`
	Next    string         `json:"next"`              // what the next run does with the row
	Files   []string       `json:"files,omitempty"`   // files of the result
	Depends []audit.Column `json:"depends,omitempty"` // parts of the key; A is empty
	Changed []audit.Column `json:"changed,omitempty"` // differences from the row with the same id in the tables
}

// maxAnswers limits the answers, because many rows may have the same id.
const maxAnswers = 100

// Explainer explains rows of a job. The engine's ledger and store must be open if the output exists.
type Explainer struct {
	Engine  *engine.Engine
	Config  *config.Config
	Summary string // name of the summary in the output

	Programs []string // names of the stages that are programs
}

// Rows explains the rows that id names: by their id, by their place in the input ("prompts.csv:3") or by at least the first eight
// digits of their key. It returns at most maxAnswers answers.
func (j Explainer) Rows(ctx context.Context, rows iter.Seq2[*stages.Element, error], id string) (all []Answer, err error) {
	for e, err := range rows {
		if err != nil {
			return nil, err
		}
		if !idNames(e, id) {
			continue
		}
		one, err := j.explain(ctx, e)
		if err != nil {
			return nil, err
		}
		if all = append(all, one); len(all) == maxAnswers {
			break
		}
	}
	return all, nil
}

// idNames reports whether id names the row.
func idNames(e *stages.Element, id string) bool {
	return e.Given.ID == id || e.Row.ID == id || e.Given.Source == id || strings.HasSuffix(e.Given.Source, "/"+id) ||
		len(id) >= 8 && strings.HasPrefix(e.Key.String(), id)
}

// explain explains one row.
func (j Explainer) explain(ctx context.Context, e *stages.Element) (Answer, error) {
	x := Answer{ID: e.Given.ID, Sample: e.Row.SampleIndex, Source: e.Given.Source, Key: e.Key.String()}
	if e.Failed != nil {
		x.State, x.Why = "unusable", e.Failed.Message
		x.Next = "a run cannot compute it; mend the row in " + e.Given.Source
		if e.Failed.Class == fault.ClassRetry {
			x.Next = "a run tries it again"
		}
		return x, nil
	}
	x.Depends = j.depends(e)
	var rec ledger.Record
	if j.Engine.Ledger != nil {
		cursor := j.Engine.Ledger.Cursor()
		defer cursor.Close()
		found, err := cursor.Find(ledger.Key(e.Key))
		if err != nil {
			return x, err
		}
		rec = found
	}
	var r schemas.Result
	if rec.Status != ledger.Absent {
		if err := json.Unmarshal(rec.Row, &r); err != nil {
			return x, err
		}
	}
	switch rec.Status {
	case ledger.Done:
		x.State, x.Why = "done", "the ledger has a record of its key, and its results are there"
		x.Next = "a run skips it, until a part of its key changes or its results are damaged"
		if computed, some := r.Readings[schemas.ReadingComputed]; some {
			x.Why += fmt.Sprintf("; the denoiser computed %s of its %s evaluations", computed, r.Readings[schemas.ReadingEvaluations])
		}
		if r.Video != nil {
			x.Files = append(x.Files, r.Video.At())
		}
	case ledger.Failed:
		x.State, x.Next = "failed", "a run skips it; retry tries it again"
		if r.Failure != nil {
			x.Why = r.Failure.Stage + ": " + r.Failure.Message
			if r.Failure.IsFinal(j.Programs) {
				x.Next = "a run skips it; it would fail again unchanged: change the row or the options of the stage, and retry"
			}
		}
	default:
		x.State, x.Why = "new", "the ledger has no record of its key, or its results are missing or damaged"
		x.Next = "a run computes it"
		return x, j.changed(ctx, e, &x)
	}
	return x, nil
}

// depends lists the parts of a row's key.
func (j Explainer) depends(e *stages.Element) (all []audit.Column) {
	r := &e.Row
	add := func(name string, value any) { all = append(all, audit.Column{Name: name, B: fmt.Sprint(value)}) }
	values := map[stages.Param]any{
		stages.ParamPrompt: strconv.Quote(r.Prompt), stages.ParamNegativePrompt: strconv.Quote(r.NegativePrompt),
		stages.ParamHeight: r.Height, stages.ParamWidth: r.Width, stages.ParamNumFrames: r.NumFrames, stages.ParamFPS: r.FPS,
		stages.ParamSteps: r.NumInferenceSteps, stages.ParamGuidanceScale: r.Guidance(),
		stages.ParamMaxSequenceLength: r.MaxSequenceLength,
	}
	if r.GuidanceScale2 != nil {
		values[stages.ParamGuidanceScale2] = *r.GuidanceScale2
	}
	if r.Seed != nil {
		values[stages.ParamSeed] = *r.Seed
	}
	sampled := slices.Contains(j.Engine.Rules.Params(), stages.ParamSeed)
	for _, p := range j.Engine.Rules.Params() {
		if name, own := p.Column(); own {
			value, _ := r.Column(name)
			add(name, string(value))
		} else if v, known := values[p]; known {
			add(string(p), v)
		}
	}
	if sampled { // the key contains the seed and sample_index
		add("sample_index", r.SampleIndex)
	}
	if slices.ContainsFunc(j.Engine.Schedule.Steps, func(s stages.Step) bool { return s.Digest() != "" }) {
		add("weights_digest", j.Engine.Rules.Weights())
	}
	add("class", j.Engine.Rules.Class)
	for _, s := range j.Engine.Schedule.Steps {
		var own struct{ Version any } // version that the program's options give
		switch {
		case s.Spec.Passive:
		case s.Spec.Program != nil && json.Unmarshal(s.Options, &own) == nil && own.Version != nil:
			add("stage "+s.Name, fmt.Sprint("version ", own.Version))
		default:
			add("stage "+s.Name, fmt.Sprint("version ", s.Spec.Version))
		}
	}
	return all
}

// changed finds the row with the same id in the tables, which has another key, and adds the differences to x.
func (j Explainer) changed(ctx context.Context, e *stages.Element, x *Answer) error {
	if j.Engine.Store == nil {
		x.Why = "there is no output yet"
		return nil
	}
	was, err := audit.FindRow(ctx, j.Engine.Store, e.Given.ID, e.Row.SampleIndex)
	if err != nil || was == nil {
		return err
	}
	if was["key"] == x.Key {
		x.Why = "its key is in the tables, but its results are missing or damaged; `latentbeam verify` says more"
		return nil
	}
	x.Why = "the output has a row of this id under another key"
	r := &e.Row
	for name, is := range map[string]any{
		"prompt": r.Prompt, "caption": r.Prompt, "negative_prompt": r.NegativePrompt, "seed": *r.Seed, "height": r.Height, "width": r.Width,
		"num_frames": r.NumFrames, "fps": r.FPS, "num_inference_steps": r.NumInferenceSteps, "guidance_scale": r.Guidance(),
		"max_sequence_length": r.MaxSequenceLength, "weights_digest": j.Engine.Rules.Weights(), "class": j.Engine.Rules.Class,
	} {
		before, known := was[name]
		if known && name != "num_frames" && fmt.Sprint(before) != fmt.Sprint(is) {
			x.Changed = append(x.Changed, audit.Column{Name: name, A: fmt.Sprint(before), B: fmt.Sprint(is)})
		}
	}
	before := schemas.PromptRow{Extra: fmt.Sprint(was["extra"])}
	for _, p := range j.Engine.Rules.Params() {
		name, own := p.Column()
		was, _ := before.Column(name)
		is, _ := r.Column(name)
		if own && string(was) != string(is) {
			x.Changed = append(x.Changed, audit.Column{Name: name, A: string(was), B: string(is)})
		}
	}
	slices.SortFunc(x.Changed, func(a, b audit.Column) int { return strings.Compare(a.Name, b.Name) })
	return j.changedStages(ctx, x)
}

// changedStages compares the model and the stages with those of the last run.
func (j Explainer) changedStages(ctx context.Context, x *Answer) error {
	last, err := report.ReadSummary(ctx, j.Engine.Store, j.Summary)
	if err != nil {
		return nil //nolint:nilerr // the stages of the last run are not known
	}
	now, err := j.Config.CanonicalJSON()
	if err != nil {
		return err
	}
	type part struct {
		Stages []any `json:"stages"`
		Model  any   `json:"model"`
	}
	var a, b part
	if json.Unmarshal(last.Config, &a) != nil || json.Unmarshal(now, &b) != nil {
		return nil
	}
	x.Changed = append(x.Changed, differences("model", a.Model, b.Model)...)
	was, is := stagesOf(a.Stages), stagesOf(b.Stages)
	if was, is := slices.Collect(maps.Keys(was)), slices.Collect(maps.Keys(is)); !sameSet(was, is) {
		x.Changed = append(x.Changed, audit.Column{Name: "stages", A: compact(a.Stages), B: compact(b.Stages)})
		return nil
	}
	for _, s := range j.Engine.Schedule.Steps {
		for _, c := range differences("stages."+s.Name, was[s.Name], is[s.Name]) {
			if keyed(s, strings.TrimPrefix(c.Name, "stages."+s.Name+"."), c) {
				x.Changed = append(x.Changed, c)
			}
		}
	}
	return nil
}

// stagesOf returns the options of a configuration's stages by their names.
func stagesOf(list []any) map[string]any {
	out := map[string]any{}
	for _, s := range list {
		switch s := s.(type) {
		case string:
			out[s] = map[string]any{}
		case map[string]any:
			for name, options := range s {
				if o, ok := options.(map[string]any); ok {
					if own, ok := o["name"].(string); ok {
						name = own
					}
				}
				out[name] = options
			}
		}
	}
	return out
}

func sameSet(a, b []string) bool {
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// keyed reports whether a changed option is part of the keys. It is if the step has it among its options. If the option was
// removed, keyed cannot know and returns true.
func keyed(s stages.Step, option string, c audit.Column) bool {
	name, _, _ := strings.Cut(option, ".")
	var options map[string]json.RawMessage
	if json.Unmarshal(s.Options, &options) != nil {
		return true
	}
	_, found := options[name]
	return found || c.B == notGiven
}

// notGiven is shown in place of a value that the configuration does not have.
const notGiven = "(not given)"

// differences returns the differences between two JSON values, one per field. It compares a list as one value.
func differences(name string, a, b any) (all []audit.Column) {
	was, isMap := a.(map[string]any)
	is, areMaps := b.(map[string]any)
	if !isMap || !areMaps {
		if a, b := compact(a), compact(b); a != b {
			all = append(all, audit.Column{Name: name, A: a, B: b})
		}
		return all
	}
	names := slices.AppendSeq(slices.Collect(maps.Keys(was)), maps.Keys(is))
	slices.Sort(names)
	for _, n := range slices.Compact(names) {
		all = append(all, differences(name+"."+n, was[n], is[n])...)
	}
	return all
}

// compact formats a value as JSON without spaces.
func compact(v any) string {
	if v == nil {
		return notGiven
	}
	out, _ := json.Marshal(v)
	return string(out)
}
