package report

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"

	"latentbeam/internal/ledger"
	"latentbeam/schemas"
	"latentbeam/transforms/table"
)

// failures writes the failures table and counts the rows in the same pass.
func (j *Job) failures(ctx context.Context) (Totals, error) {
	var totals Totals
	err := j.Store.Replace(ctx, j.tableName("failures", 0), func(w io.Writer) error {
		totals = Totals{}
		return writeTable(w, j.failureRows(ctx, &totals), table.WriteOptions{Version: j.Version})
	})
	if err != nil {
		return totals, fmt.Errorf("write failures table: %w", err)
	}
	return totals, nil
}

// failureRows yields the rows that failed, counting all.
func (j *Job) failureRows(ctx context.Context, totals *Totals) iter.Seq2[schemas.FailureRow, error] {
	return func(yield func(schemas.FailureRow, error) bool) {
		for o, err := range j.walk(ctx) {
			if err != nil {
				yield(schemas.FailureRow{}, err)
				return
			}
			totals.Rows++
			switch o.status {
			case ledger.Done:
				totals.Done++
				totals.compare(o)
			case ledger.Failed:
				totals.Failed++
				if !yield(j.failureRow(o)) {
					return
				}
			default:
				totals.Pending++
			}
		}
	}
}

func (j *Job) failureRow(o outcome) (schemas.FailureRow, error) {
	parameters := o.Given
	parameters.ID, parameters.Prompt, parameters.Extra, parameters.Source = "", "", "", ""
	js, err := json.Marshal(parameters)
	if err != nil {
		return schemas.FailureRow{}, fmt.Errorf("failure of row %s: %w", o.Given.Source, err)
	}
	f := o.result.Failure
	return schemas.FailureRow{
		ID: o.Given.ID, Key: o.Key.String(), Prompt: schemas.ValidText(o.Given.Prompt, schemas.MaxFailurePromptBytes), Source: o.Given.Source,
		Class: f.Class, Stage: f.Stage, Message: f.Message, Parameters: string(js), Extra: o.Given.Extra,
		SampleIndex: int64(o.Row.SampleIndex), LatentbeamVersion: j.Version,
	}, nil
}

// compare counts the readings that have a column to be compared with.
func (t *Totals) compare(o outcome) {
	if len(o.result.Readings) == 0 {
		return
	}
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
