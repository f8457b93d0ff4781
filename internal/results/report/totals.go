package report

import (
	"context"
	"encoding/json"
	"fmt"

	"latentbeam/internal/results/gallery"
	"latentbeam/internal/results/tables"
	"latentbeam/internal/storage/ledger"
	"latentbeam/internal/storage/store"
	"latentbeam/schemas"
)

// Totals counts the rows of the input by their outcome.
type Totals struct {
	Rows   int64 `json:"rows"`   // rows of the input; each video of a prompt counts
	Done   int64 `json:"done"`   // rows with a result
	Failed int64 `json:"failed"` // rows in the failures table, without Dropped
	// Final counts the failed rows that would fail again without a change, because the cause is not a program, a device or a
	// remote file.
	Final   int64 `json:"final_failures,omitempty"`
	Pending int64 `json:"pending"` // rows that are not settled, because the run ended early
	// Dropped counts the rows that rules of the job left out. They are in the failures table and do not count as failed.
	Dropped int64 `json:"dropped,omitempty"`
	// First lists the first failed rows, at most firstFailures, for readers without parquet.
	First []Failed `json:"first_failures,omitempty"`
	// NameAll makes First list all failed rows.
	NameAll bool `json:"-"`
	// Agreement compares readings with columns of the prompt table that have the same name. It counts the rows that have
	// both, and the rows in which they are equal. The entry "all" counts rows in which all such readings are equal.
	Agreement map[string]Agreement `json:"agreement,omitempty"`
	// Input is the digest of the rows and their outcomes, see Digest.
	Input string `json:"-"`

	programs []string       // names of the stages that are programs
	causes   gallery.Causes // causes of failures, for the gallery
}

// Causes lists the causes of the failures that were counted.
func (t Totals) Causes() []gallery.Cause { return t.causes.List() }

// firstFailures limits the failed rows in Totals.First, and messageBytes the message of each.
const (
	firstFailures = 5
	messageBytes  = 1 << 10
)

// Failed names a failed row and its cause.
type Failed struct {
	Source  string `json:"source"` // place in the input, "shapes.csv:17"
	Stage   string `json:"stage"`
	Message string `json:"message"`
}

// Agreement counts how often a reading equals its column.
type Agreement struct {
	Equal int64 `json:"equal"`
	Of    int64 `json:"of"`
}

// count counts a row. A row that failed or has readings must be parsed.
func (t *Totals) count(o *outcome) {
	t.Rows++
	switch o.status {
	case ledger.Absent:
		t.Pending++
	case ledger.Done:
		t.Done++
		t.compare(o)
	case ledger.Failed:
		if o.isDropped() {
			t.Dropped++
			return
		}
		t.Failed++
		f := o.result.Failure
		if o.Element.Failed == nil && f.IsFinal(t.programs) {
			t.Final++
		}
		t.Name(o.Given.Source, f.Stage, f.Message)
		t.causes.Add(f.Class, f.Stage, gallery.Failure{ID: o.Given.ID, Source: o.Given.Source,
			Prompt: schemas.ValidText(o.Given.Prompt, schemas.MaxFailurePromptBytes), Reason: f.Message})
	}
}

// Name adds a failed row to First, up to its limit.
func (t *Totals) Name(source, stage, message string) {
	if t.NameAll || len(t.First) < firstFailures {
		t.First = append(t.First, Failed{source, stage, schemas.ValidText(message, messageBytes)})
	}
}

// compare counts the agreement of a row.
func (t *Totals) compare(o *outcome) {
	if len(o.result.Readings) == 0 { // most rows have none
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

// ReadFailures reads the failures table of an output, in its order.
func ReadFailures(ctx context.Context, s store.Store) ([]Failed, error) {
	named := Totals{NameAll: true}
	files, err := tables.Files(ctx, s, "failures")
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		err := tables.EachRow(ctx, s, name, func(row schemas.FailureRow) error {
			named.Name(row.Source, row.Stage, row.Message)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return named.First, nil
}
