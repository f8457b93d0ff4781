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

// Totals is what a pass over the input found.
type Totals struct {
	Rows   int64 `json:"rows"`   // input rows, several videos of one prompt counted singly
	Done   int64 `json:"done"`   // with a result
	Failed int64 `json:"failed"` // in the failures table
	// Final are computed rows among the failed that would fail again as they are: no program, no device and no file of
	// somebody else is the cause.
	Final   int64 `json:"final_failures,omitempty"`
	Pending int64 `json:"pending"` // neither, because the run ended early
	// Dropped are left out by the job's own rules. They stand in the failures table, and do not count as failed.
	Dropped int64 `json:"dropped,omitempty"`
	// First are the first of those that failed, at most firstFailures, for those who read no parquet.
	First []Failed `json:"first_failures,omitempty"`
	// NameAll names all of them.
	NameAll bool `json:"-"`
	// Agreement counts, for every reading that has a column of its name in the prompt table, how many
	// rows have both and how many of those are equal; "all" are the rows that agree in everything.
	Agreement map[string]Agreement `json:"agreement,omitempty"`
	// Input is the digest of the rows and their outcomes, see Digest.
	Input string `json:"-"`

	programs []string       // stages that are programs
	causes   gallery.Causes // what the gallery says of failed rows
}

// Causes lists why rows failed, as far as this pass has seen them.
func (t Totals) Causes() []gallery.Cause { return t.causes.List() }

// firstFailures bounds the failed rows that the totals name, messageBytes what they say of each.
const (
	firstFailures = 5
	messageBytes  = 1 << 10
)

// Failed says of a row why it failed.
type Failed struct {
	Source  string `json:"source"` // "shapes.csv:17"
	Stage   string `json:"stage"`
	Message string `json:"message"`
}

// Agreement is how often a reading equals its column.
type Agreement struct {
	Equal int64 `json:"equal"`
	Of    int64 `json:"of"`
}

// count counts a row that is parsed, where it failed or has readings.
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

// Name adds a failed row to those that the totals name.
func (t *Totals) Name(source, stage, message string) {
	if t.NameAll || len(t.First) < firstFailures {
		t.First = append(t.First, Failed{source, stage, schemas.ValidText(message, messageBytes)})
	}
}

// compare counts the readings that have a column to be compared with.
func (t *Totals) compare(o *outcome) {
	if len(o.result.Readings) == 0 { // as of most rows
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

// ReadFailures reads the failures of an output, in the order of its table.
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
