package report

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"

	"latentbeam/internal/results/gallery"
	"latentbeam/internal/storage/ledger"

	"latentbeam/internal/table/write"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
)

// failures writes the failures table. In the same pass over the input it counts the rows and lets the
// tables of tensors see what they will hold.
func (j *Job) failures(ctx context.Context, totals *Totals, made []tensorsMade) error {
	err := j.Output.Replace(ctx, j.tableName("failures", 0), func(w io.Writer) error {
		_, err := write.Write(w, j.failureRows(ctx, totals, made), j.options())
		return err
	})
	if err == nil {
		err = j.removeFrom(ctx, "failures", 1)
	}
	if err != nil {
		return fmt.Errorf("write failures table: %w", err)
	}
	return nil
}

// failureRows yields the rows that failed, looking at all.
func (j *Job) failureRows(ctx context.Context, totals *Totals,
	made []tensorsMade) iter.Seq2[schemas.FailureRow, error] {
	return func(yield func(schemas.FailureRow, error) bool) {
		digest := j.Digest()
		for o, err := range j.judged(ctx) {
			j.early.note(o.status)
			if err == nil {
				digest.row = appendRow(digest.row[:0], o.Element)
				digest.add(o.Element, o.recorded())
				err = totals.count(&o, digest.row, made)
			}
			var row schemas.FailureRow
			if err == nil && o.status == ledger.Failed {
				row, err = j.failureRow(&o)
				if row.Class != fault.ClassDropped.String() {
					totals.Name(row.Source, row.Stage, row.Message)
					totals.causes.Add(row.Class, row.Stage,
						gallery.Failure{ID: row.ID, Source: row.Source, Prompt: row.Prompt, Reason: row.Message})
				}
			}
			if (err != nil || o.status == ledger.Failed) && (!yield(row, err) || err != nil) {
				return
			}
		}
		totals.Input = digest.Sum()
	}
}

// wideFailures writes the failures table again, with the columns that only the first pass has learned.
func (j *Job) wideFailures(ctx context.Context, rows iter.Seq2[outcome, error], more *Columns) error {
	err := j.Output.Replace(ctx, j.tableName("failures", 0), func(w io.Writer) error {
		row := func(o outcome) (schemas.FailureRow, error) { return j.failureRow(&o) }
		return writeWide(w, only(ledger.Failed, rows), row, more, j.options())
	})
	if err != nil {
		return fmt.Errorf("write failures table: %w", err)
	}
	return nil
}

// count counts a row, whose appendRow is row.
func (t *Totals) count(o *outcome, row []byte, made []tensorsMade) error {
	t.Rows++
	switch o.status {
	case ledger.Failed:
		if err := t.failed.See(o.Row.Extra, nil); err != nil {
			return err
		}
		if err := o.parse(); err != nil {
			return err
		}
		if o.isDropped() {
			t.Dropped++
			return nil
		}
		t.Failed++
		if o.Element.Failed == nil && o.result.Failure.IsFinal(t.programs) {
			t.Final++
		}
	case ledger.Absent:
		t.Pending++
	case ledger.Done:
		t.Done++
		if bytes.Contains(o.record.Row, []byte(`"readings"`)) { // few jobs have any: spare the others parsing
			if err := o.parse(); err != nil {
				return err
			}
			t.compare(o)
		}
		for _, table := range made {
			if err := table.add(o, row); err != nil {
				return err
			}
		}
		if err := t.columns.See(o.Row.Extra, o.result.Readings); err != nil {
			return err
		}
	}
	return nil
}

// Name adds a failed row to those that the totals name.
func (t *Totals) Name(source, stage, message string) {
	if len(t.First) < firstFailures {
		t.First = append(t.First, Failed{source, stage, schemas.ValidText(message, messageBytes)})
	}
}

func (j *Job) failureRow(o *outcome) (schemas.FailureRow, error) {
	if err := o.parse(); err != nil {
		return schemas.FailureRow{}, err
	}
	parameters := struct { // without what has columns of its own
		schemas.PromptRow
		ID     string `json:"id,omitempty"`
		Prompt string `json:"prompt,omitempty"`
	}{PromptRow: o.Row}
	parameters.Extra, parameters.Source = "", ""
	js, err := json.Marshal(parameters)
	if err == nil && len(o.Wrong) > 0 {
		js, err = asGiven(js, o.Wrong)
	}
	if err != nil {
		return schemas.FailureRow{}, fmt.Errorf("failure of row %s: %w", o.Given.Source, err)
	}
	f := o.result.Failure
	return schemas.FailureRow{
		ID: o.Given.ID, Key: o.Key.String(), Source: o.Given.Source,
		Prompt: schemas.ValidText(o.Given.Prompt, schemas.MaxFailurePromptBytes),
		Class:  f.Class, Stage: f.Stage, Message: f.Message, Parameters: string(js), Extra: o.Given.Extra,
		SampleIndex: int64(o.Row.SampleIndex), LatentbeamVersion: j.Version,
	}, nil
}

// asGiven puts what the table has in place of the parameters that could not be read.
func asGiven(parameters []byte, wrong map[string]string) ([]byte, error) {
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(parameters, &all); err != nil {
		return nil, err
	}
	for name, text := range wrong {
		if name == "id" || name == "prompt" { // which have columns
			continue
		}
		js, err := json.Marshal(text)
		if err != nil {
			return nil, err
		}
		all[name] = js
	}
	return json.Marshal(all)
}

// compare counts the readings that have a column to be compared with.
func (t *Totals) compare(o *outcome) {
	var columns map[string]any
	if json.Unmarshal([]byte(o.Row.Extra), &columns) != nil {
		return
	}
	if t.Agreement == nil {
		t.Agreement = map[string]Agreement{}
	}
	count := func(name string, equal bool) {
		a := t.Agreement[name]
		a.Of++
		if equal {
			a.Equal++
		}
		t.Agreement[name] = a
	}
	all, some := true, false
	for name, got := range o.result.Readings {
		if want, ok := columns[name]; ok {
			equal := fmt.Sprint(want) == got
			count(name, equal)
			all, some = all && equal, true
		}
	}
	if some {
		count("all", all)
	}
}
