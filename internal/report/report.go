package report

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"

	"latentbeam/internal/ledger"
	"latentbeam/internal/store"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// Job is what a report is made of.
type Job struct {
	Title  string
	Store  *store.Dir
	Ledger *ledger.Ledger
	// Rows yields every row of the input in order, filled, checked and keyed, without tensors. A non-nil
	// error is about the whole table.
	Rows func(ctx context.Context) iter.Seq2[*stages.Element, error]
	Keep map[stages.Kind]bool // which tables are wanted: video, latents, text
	// Part tells the files of one shard from those of others, such as "00001-of-00004-"; "" for all.
	Part string
	Facts
}

// Facts are the provenance columns that all rows of a job share.
type Facts struct {
	Model, Weights, Class, Version string
}

// Totals is what a pass over the input found.
type Totals struct {
	Rows    int64 `json:"rows"`    // input rows, several videos of one prompt counted singly
	Done    int64 `json:"done"`    // with a result
	Failed  int64 `json:"failed"`  // in the failures table
	Pending int64 `json:"pending"` // neither, because the run ended early
	// Agreement counts, for every reading that has a column of its name in the prompt table, how many
	// rows have both and how many of those are equal; "all" are the rows that agree in everything.
	Agreement map[string]Agreement `json:"agreement,omitempty"`
}

// Agreement is how often a reading equals its column.
type Agreement struct {
	Equal int64 `json:"equal"`
	Of    int64 `json:"of"`
}

// Write writes all tables and the gallery of the job and removes those of earlier runs that no longer
// belong to it.
func (j *Job) Write(ctx context.Context) (Totals, error) {
	totals, err := j.failures(ctx)
	if err != nil {
		return totals, err
	}
	if j.Keep[stages.KindText] {
		err = j.embeddings(ctx)
	}
	if err == nil && j.Keep[stages.KindLatents] {
		err = j.latents(ctx)
	}
	if err == nil && j.Keep[stages.KindVideo] {
		if err = j.videos(ctx); err == nil {
			err = j.gallery(ctx, totals)
		}
	}
	return totals, err
}

// outcome is a row with what the ledger says of it.
type outcome struct {
	*stages.Element
	status ledger.Status
	ref    ledger.Ref
	result schemas.Result
}

// walk yields every row with its outcome. A row that failed before it could be computed has the failure
// of its element.
func (j *Job) walk(ctx context.Context) iter.Seq2[outcome, error] {
	return func(yield func(outcome, error) bool) {
		for e, err := range j.Rows(ctx) {
			if err != nil {
				yield(outcome{}, err)
				return
			}
			o := outcome{Element: e}
			if err := j.look(&o); err != nil {
				yield(outcome{}, err)
				return
			}
			if !yield(o, nil) {
				return
			}
		}
	}
}

// look fills in what is known of the row.
func (j *Job) look(o *outcome) error {
	if o.Failed != nil {
		o.status = ledger.Failed
		o.result.Failure = &schemas.FailureFacts{
			Class: o.Failed.Class.String(), Stage: o.Failed.Stage, Message: o.Failed.Message,
		}
		return nil
	}
	var err error
	if o.ref, o.status, err = j.Ledger.Lookup(ledger.Key(o.Key)); err != nil || o.status == ledger.Absent {
		return err
	}
	record, err := j.Ledger.Read(o.ref)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(record.Row, &o.result); err != nil {
		return fmt.Errorf("read ledger record %s: %w", o.Key, err)
	}
	return nil
}

// done yields only the rows that have a result.
func (j *Job) done(ctx context.Context) iter.Seq2[outcome, error] {
	return func(yield func(outcome, error) bool) {
		for o, err := range j.walk(ctx) {
			if (err != nil || o.status == ledger.Done) && !yield(o, err) {
				return
			}
		}
	}
}

// tableName names file number i of a table.
func (j *Job) tableName(table string, i int) string {
	return fmt.Sprintf("tables/%s-%s%05d.parquet", table, j.Part, i)
}

// removeFrom removes the files of a table from number i on: an earlier run had more rows.
func (j *Job) removeFrom(table string, i int) error {
	names, err := j.Store.List("tables/" + table + "-" + j.Part)
	if err != nil {
		return err
	}
	keep := make([]string, i)
	for k := range keep {
		keep[k] = j.tableName(table, k)
	}
	for _, name := range names {
		rest := strings.TrimPrefix(name, "tables/"+table+"-"+j.Part)
		if len(rest) != len("00000.parquet") || slices.Contains(keep, name) {
			continue // another shard's, or to be kept
		}
		if err := j.Store.Remove(name); err != nil {
			return err
		}
	}
	return nil
}
