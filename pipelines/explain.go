package pipelines

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"latentbeam/internal/audit"
	"latentbeam/internal/ledger"
	"latentbeam/internal/report"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// Explained says what became of a row and why.
type Explained struct {
	ID      string         `json:"id"`
	Sample  int            `json:"sample_index"`
	Source  string         `json:"source"` // "prompts.csv:3"
	Key     string         `json:"key"`
	State   string         `json:"state"` // done, failed, unusable or new
	Why     string         `json:"why"`
	Next    string         `json:"next"`              // what a run does with it
	Files   []string       `json:"files,omitempty"`   // of the result
	Depends []audit.Column `json:"depends,omitempty"` // what its key is made of; A is empty
	Changed []audit.Column `json:"changed,omitempty"` // since the row of its id in the tables was computed
}

// maxExplained bounds the rows that Explain names: ids may be the same for many.
const maxExplained = 100

// Explain says what became of the rows that id names: by their id, by their place in the input ("prompts.csv:3") or by
// the first eight or more digits of their key. The job has looked at its output (Peek).
func (j *Job) Explain(ctx context.Context, id string) (all []Explained, err error) {
	for e, err := range j.rows(ctx) {
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
		if all = append(all, one); len(all) == maxExplained {
			break
		}
	}
	return all, nil
}

// idNames tells whether id names the row.
func idNames(e *stages.Element, id string) bool {
	return e.Given.ID == id || e.Row.ID == id || e.Given.Source == id || strings.HasSuffix(e.Given.Source, "/"+id) ||
		len(id) >= 8 && strings.HasPrefix(e.Key.String(), id)
}

func (j *Job) explain(ctx context.Context, e *stages.Element) (Explained, error) {
	x := Explained{ID: e.Given.ID, Sample: e.Row.SampleIndex, Source: e.Given.Source, Key: e.Key.String()}
	if e.Failed != nil {
		x.State, x.Why = "unusable", e.Failed.Message
		x.Next = "a run cannot compute it; mend the row in " + e.Given.Source
		return x, nil
	}
	x.Depends = j.depends(e)
	var rec ledger.Record
	if j.engine.Ledger != nil {
		cursor := j.engine.Ledger.Cursor()
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
		if r.Video != nil {
			x.Files = append(x.Files, r.Video.Path)
		}
	case ledger.Failed:
		x.State, x.Next = "failed", "a run skips it; retry tries it again"
		if r.Failure != nil {
			x.Why = r.Failure.Stage + ": " + r.Failure.Message
		}
	default:
		x.State, x.Why = "new", "the ledger has no record of its key, or its results are missing or damaged"
		x.Next = "a run computes it"
		return x, j.changed(ctx, e, &x)
	}
	return x, nil
}

// depends lists what the key of a row is made of.
func (j *Job) depends(e *stages.Element) (all []audit.Column) {
	r := &e.Row
	add := func(name string, value any) { all = append(all, audit.Column{Name: name, B: fmt.Sprint(value)}) }
	values := map[stages.Param]any{
		stages.ParamPrompt: strconv.Quote(r.Prompt), stages.ParamNegativePrompt: strconv.Quote(r.NegativePrompt), stages.ParamHeight: r.Height,
		stages.ParamWidth: r.Width, stages.ParamNumFrames: r.NumFrames, stages.ParamFPS: r.FPS,
		stages.ParamSteps: r.NumInferenceSteps, stages.ParamGuidanceScale: r.Guidance(),
		stages.ParamMaxSequenceLength: r.MaxSequenceLength,
	}
	if r.Seed != nil {
		values[stages.ParamSeed] = *r.Seed
	}
	for _, p := range j.engine.Rules.Params() {
		if name, own := p.Column(); own {
			value, _ := r.Column(name)
			add(name, string(value))
		} else if v, known := values[p]; known {
			add(string(p), v)
		}
	}
	add("weights_digest", j.engine.Rules.Weights())
	add("class", j.engine.Rules.Class)
	for _, s := range j.engine.Steps {
		if !s.Spec.Passive {
			add("stage "+s.Name, fmt.Sprint("version ", s.Spec.Version))
		}
	}
	return all
}

// changed looks for the row of the same id in the tables, which was computed under another key, and says what differs.
func (j *Job) changed(ctx context.Context, e *stages.Element, x *Explained) error {
	if j.engine.Store == nil {
		x.Why = "there is no output yet"
		return nil
	}
	was, err := audit.Was(ctx, j.engine.Store, e.Given.ID, e.Row.SampleIndex)
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
		"max_sequence_length": r.MaxSequenceLength, "weights_digest": j.engine.Rules.Weights(), "class": j.engine.Rules.Class,
	} {
		before, known := was[name]
		if known && name != "num_frames" && fmt.Sprint(before) != fmt.Sprint(is) {
			x.Changed = append(x.Changed, audit.Column{Name: name, A: fmt.Sprint(before), B: fmt.Sprint(is)})
		}
	}
	before := schemas.PromptRow{Extra: fmt.Sprint(was["extra"])}
	for _, p := range j.engine.Rules.Params() {
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

// changedStages compares the stages with those of the last run.
func (j *Job) changedStages(ctx context.Context, x *Explained) error {
	last, err := report.ReadSummary(ctx, j.engine.Store, j.report.SummaryName())
	if err != nil {
		return nil //nolint:nilerr // nothing is known of them
	}
	now, err := j.Config.CanonicalJSON()
	if err != nil {
		return err
	}
	var a, b struct {
		Stages json.RawMessage `json:"stages"`
		Model  json.RawMessage `json:"model"`
	}
	if json.Unmarshal(last.Config, &a) != nil || json.Unmarshal(now, &b) != nil {
		return nil
	}
	for _, c := range []audit.Column{{Name: "stages", A: compact(a.Stages), B: compact(b.Stages)}, {Name: "model", A: compact(a.Model), B: compact(b.Model)}} {
		if c.A != c.B {
			x.Changed = append(x.Changed, c)
		}
	}
	return nil
}

// compact writes JSON without spaces.
func compact(text json.RawMessage) string {
	var v any
	if json.Unmarshal(text, &v) != nil {
		return string(text)
	}
	out, _ := json.Marshal(v)
	return string(out)
}
