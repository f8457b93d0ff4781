package report

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"latentbeam/internal/storage/ledger"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// outcome is a row with what the ledger says of it.
type outcome struct {
	*stages.Element
	status ledger.Status
	result schemas.Result
	record ledger.Record  // Row is valid until the next row is read
	cursor *ledger.Cursor // stands at the record
	twin   string         // why a row with a result is left out: it looks like an earlier one
}

// walk yields every row with its outcome; result is still to be parsed. A row that failed before it could
// be computed has the failure of its element.
func (j *Job) walk(ctx context.Context) iter.Seq2[outcome, error] {
	return func(yield func(outcome, error) bool) {
		cursor := j.Ledger.Cursor()
		defer cursor.Close()
		for e, err := range j.Rows(ctx) {
			o := outcome{Element: e, cursor: cursor, status: ledger.Failed}
			if err == nil && e.Failed == nil {
				o.record, err = cursor.Find(ledger.Key(e.Key))
				o.status = o.record.Status
			}
			if !yield(o, err) || err != nil {
				return
			}
		}
	}
}

// parse fills in the result.
func (o *outcome) parse() error {
	if o.Failed != nil {
		o.result.Failure = &schemas.FailureFacts{
			Class: o.Failed.Class.String(), Stage: o.Failed.Stage, Message: o.Failed.Message,
		}
		return nil
	}
	if err := json.Unmarshal(o.record.Row, &o.result); err != nil {
		return fmt.Errorf("read ledger record %s: %w", o.Key, err)
	}
	if o.twin != "" {
		o.result.Failure = &schemas.FailureFacts{Class: fault.ClassDropped.String(), Stage: "guard", Message: o.twin}
	}
	return nil
}

// isDropped reports whether the job's own rules leave out a row that is parsed and has no result.
func (o *outcome) isDropped() bool { return o.result.Failure.Class == fault.ClassDropped.String() }

// recorded is what the ledger says of the row, whatever other rows look like.
func (o *outcome) recorded() ledger.Status {
	if o.twin != "" {
		return ledger.Done
	}
	return o.status
}

// caption is the prompt that the text and the latents were made with.
func (o *outcome) caption() string { return cmp.Or(o.result.Prompt, o.Row.Prompt) }

// settled yields the rows that have a result or a failure, parsed. Those of a report that is written early are the rows
// that its first pass has found done.
func (j *Job) settled(ctx context.Context) iter.Seq2[outcome, error] {
	return func(yield func(outcome, error) bool) {
		at := -1
		rows := j.judged(ctx)
		if j.early != nil {
			rows = j.walk(ctx)
		}
		for o, err := range rows {
			at++
			if err == nil && (o.status == ledger.Absent || j.early != nil && !j.early.done.has(at)) {
				continue
			}
			if err == nil {
				err = o.parse()
			}
			if !yield(o, err) || err != nil {
				return
			}
		}
	}
}

// only yields the rows of a status.
func only(status ledger.Status, rows iter.Seq2[outcome, error]) iter.Seq2[outcome, error] {
	return func(yield func(outcome, error) bool) {
		for o, err := range rows {
			if (err != nil || o.status == status) && !yield(o, err) {
				return
			}
		}
	}
}

// convert turns outcomes into rows of a table.
func convert[T any](rows iter.Seq2[outcome, error], row func(outcome) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for o, err := range rows {
			var t T
			if err == nil {
				t, err = row(o)
			}
			if !yield(t, err) || err != nil {
				return
			}
		}
	}
}

// inFiles cuts rows into files of at most n and returns how many there are; there is always one, so
// that an empty table can be read too.
func inFiles(rows iter.Seq2[outcome, error], n int,
	write func(i int, rows iter.Seq2[outcome, error]) error) (int, error) {
	next, stop := iter.Pull2(rows)
	defer stop()
	o, err, more := next()
	for i := 0; ; i++ {
		file := func(yield func(outcome, error) bool) {
			for k := 0; more && k < n; k++ {
				if !yield(o, err) {
					return
				}
				o, err, more = next()
			}
		}
		if err := write(i, file); err != nil {
			return i, err
		}
		if !more {
			return i + 1, nil
		}
	}
}
