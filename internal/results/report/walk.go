package report

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"latentbeam/internal/storage/ledger"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// walk reads the rows of a report with their outcomes. All writers of the report share it. Job.learn reads them first, with each;
// then settled yields the rows to write.
type walk struct {
	rows   func(ctx context.Context) iter.Seq2[*stages.Element, error]
	ledger *ledger.Ledger
	alike  *stages.Alike // rule that drops rows that look like earlier ones; nil: none
	limits stages.Limits // limits of readings; rows outside of them are dropped
	// recall adds readings that are stored apart from results, see Job.Recall; nil: there are none.
	recall func(e *stages.Element, r *schemas.Result) (lacking bool, err error)
	// selected holds the numbers of the selected rows. Job.learn sets it.
	selected map[int]bool
	early    *early // state of an early report; nil: the job has ended
}

// outcome is a row of the input with its record in the ledger.
type outcome struct {
	*stages.Element
	at       int // number of the row in the input, from 0
	status   ledger.Status
	result   schemas.Result
	record   ledger.Record  // Row is valid until the next row is read
	cursor   *ledger.Cursor // positioned at the record
	dropped  string         // why a row with a result is dropped; "": it is not
	selected bool
	walk     *walk
	parsed   bool
}

// each yields the rows for whose numbers pick returns true (nil: all), with their outcomes. The results are not parsed yet. If a row
// failed before it could be computed, its element has the failure.
//
// each drops a row with a reading outside its limits, and a row that looks like an earlier retained row. It yields a dropped row as
// failed, with the reason in the field dropped. Whether a row is dropped depends only on the readings and on the order of the
// input, and never on later rows, shards, batches or the order of computation. Every dropped lookalike has a retained row that it
// looks like, and no two retained rows look alike.
func (w *walk) each(ctx context.Context, pick func(at int) bool) iter.Seq2[outcome, error] {
	return func(yield func(outcome, error) bool) {
		cursor := w.ledger.Cursor()
		defer cursor.Close()
		var retained *lookalikes
		if w.alike != nil {
			retained = newLookalikes(w.alike.Distance)
		}
		at := -1
		for e, err := range w.rows(ctx) {
			if at++; err == nil && pick != nil && !pick(at) {
				continue
			}
			o := outcome{Element: e, at: at, cursor: cursor, status: ledger.Failed, walk: w, selected: w.selected[at]}
			if err == nil && e.Failed == nil {
				o.record, err = cursor.Find(ledger.Key(e.Key))
				o.status = o.record.Status
			}
			if err == nil && (retained != nil || len(w.limits) > 0) && o.status == ledger.Done {
				if err = o.parse(); err == nil {
					o.dropped = w.limits.Judge(func(name string) string { return o.result.Readings[name] })
				}
				if err == nil && retained != nil && o.dropped == "" {
					o.dropped = retained.Judge(&o.Row, o.result.Readings[w.alike.Reading])
				}
				if o.dropped != "" {
					o.status = ledger.Failed
				}
			}
			if !yield(o, err) || err != nil {
				return
			}
		}
	}
}

// settled yields the parsed rows that have a result or a failure. For an early report it yields only the rows that were settled
// during the first pass.
func (w *walk) settled(ctx context.Context) iter.Seq2[outcome, error] {
	var pick func(int) bool
	if w.early != nil {
		pick = w.early.settled.has
	}
	return func(yield func(outcome, error) bool) {
		for o, err := range w.each(ctx, pick) {
			if err == nil && (o.status == ledger.Absent || w.early != nil && o.status == ledger.Done && !w.early.done.has(o.at)) {
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

// parse sets the result.
func (o *outcome) parse() error {
	if o.Failed != nil {
		o.result.Failure = &schemas.FailureFacts{
			Class: o.Failed.Class.String(), Stage: o.Failed.Stage, Message: o.Failed.Message,
		}
		return nil
	}
	if !o.parsed {
		if err := json.Unmarshal(o.record.Row, &o.result); err != nil {
			return fmt.Errorf("read ledger record %s: %w", o.Key, err)
		}
		if err := o.recall(); err != nil {
			return err
		}
		if v := o.result.Video; v != nil && v.Source != "" { // several files with the same content share a record
			v.Source = o.Row.Media
		}
		o.parsed = true
	}
	if o.dropped != "" {
		o.result.Failure = &schemas.FailureFacts{Class: fault.ClassDropped.String(), Stage: "guard", Message: o.dropped}
	}
	return nil
}

// recall adds the readings that are stored apart from the result.
func (o *outcome) recall() error {
	if o.walk.recall == nil || o.recorded() != ledger.Done {
		return nil
	}
	if _, err := o.walk.recall(o.Element, &o.result); err != nil {
		return fmt.Errorf("readings of %s: %w", o.Key, err)
	}
	if len(o.Looked) > 0 {
		own := o.Readings
		o.Readings = o.result.Readings
		o.result.Readings = o.AllReadings()
		o.Readings = own
	}
	return nil
}

// isDropped reports whether a rule of the job dropped the row. The row is parsed and failed.
func (o *outcome) isDropped() bool { return o.result.Failure.Class == fault.ClassDropped.String() }

// recorded returns the status of the row in the ledger, which does not know about dropped lookalikes.
func (o *outcome) recorded() ledger.Status {
	if o.dropped != "" {
		return ledger.Done
	}
	return o.status
}

// caption returns the prompt from which the text embedding and the latents were made.
func (o *outcome) caption() string { return cmp.Or(o.result.Prompt, o.Row.Prompt) }

// early holds what the first pass of an early report found. The report leaves out rows that are settled after it, so that all its
// files contain the same rows.
type early struct {
	again         time.Duration // time until the next early report
	settled, done bits          // numbers of rows
	incomplete    bool          // a row is not settled
}

// record adds the outcome of a row. A nil early ignores it.
func (e *early) record(o *outcome) {
	if e == nil {
		return
	}
	if o.status == ledger.Done {
		e.done.set(o.at)
	}
	if o.status != ledger.Absent {
		e.settled.set(o.at)
	}
	e.incomplete = e.incomplete || o.status == ledger.Absent
}

// bits is a set of numbers.
type bits []uint64

func (b *bits) set(i int) {
	for len(*b) <= i/64 {
		*b = append(*b, 0)
	}
	(*b)[i/64] |= 1 << (i % 64)
}

func (b bits) has(i int) bool { return i/64 < len(b) && b[i/64]>>(i%64)&1 != 0 }

// only yields the rows with a status.
func only(status ledger.Status, rows iter.Seq2[outcome, error]) iter.Seq2[outcome, error] {
	return func(yield func(outcome, error) bool) {
		for o, err := range rows {
			if (err != nil || o.status == status) && !yield(o, err) {
				return
			}
		}
	}
}

// convert converts outcomes into rows of a table.
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

// splitFiles calls write for each file of at most n rows, and returns the number of files. There is always at least one file, so
// that an empty table can be read.
func splitFiles(rows iter.Seq2[outcome, error], n int,
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
