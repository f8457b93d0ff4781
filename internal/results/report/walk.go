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

// walk is the way over the rows of a report, that all its writers share. learn goes it first, settled gives the rows to be
// written.
type walk struct {
	rows   func(ctx context.Context) iter.Seq2[*stages.Element, error]
	ledger *ledger.Ledger
	alike  *stages.Alike // which rows are left out because they look like earlier ones; nil: none
	limits stages.Limits // of readings, beyond which rows are left out
	// recall brings the readings that are kept apart from results, see Job.Recall; nil: there are none.
	recall func(e *stages.Element, r *schemas.Result) (lacking bool, err error)
	// selected are the numbers of the rows that the job selects, once learn has seen all.
	selected map[int]bool
	early    *early // while the job runs; nil: it has ended
}

// outcome is a row with what the ledger says of it.
type outcome struct {
	*stages.Element
	at       int // its number in the input, from 0
	status   ledger.Status
	result   schemas.Result
	record   ledger.Record  // Row is valid until the next row is read
	cursor   *ledger.Cursor // stands at the record
	twin     string         // why a row with a result is left out: it looks like an earlier one, or a reading is beyond its limit
	selected bool
	walk     *walk
	parsed   bool
}

// each yields the rows that pick picks by their numbers (nil: all) with their outcomes; result is still to be parsed. A row
// that failed before it could be computed has the failure of its element.
//
// A row with a reading beyond its limit is left out, and so is one that looks like an earlier one which is kept: it comes as
// failed, with the reason in twin. What is kept
// follows from the input's order and the readings alone, and from no later row. So shards, batches and the order of
// computing decide nothing, and each row left out has a kept one that it looks like, while no two kept ones look alike.
func (w *walk) each(ctx context.Context, pick func(at int) bool) iter.Seq2[outcome, error] {
	return func(yield func(outcome, error) bool) {
		cursor := w.ledger.Cursor()
		defer cursor.Close()
		var kept *lookalikes
		if w.alike != nil {
			kept = newLookalikes(w.alike.Distance)
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
			if err == nil && (kept != nil || len(w.limits) > 0) && o.status == ledger.Done {
				if err = o.parse(); err == nil {
					o.twin = w.limits.Judge(func(name string) string { return o.result.Readings[name] })
				}
				if err == nil && kept != nil && o.twin == "" {
					o.twin = kept.Judge(&o.Row, o.result.Readings[w.alike.Reading])
				}
				if o.twin != "" {
					o.status = ledger.Failed
				}
			}
			if !yield(o, err) || err != nil {
				return
			}
		}
	}
}

// settled yields the rows that have a result or a failure, parsed. Those of a report that is written early are the rows
// that its first pass has found settled.
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

// parse fills in the result.
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
		if v := o.result.Video; v != nil && v.Source != "" { // files of one content have one record
			v.Source = o.Row.Media
		}
		o.parsed = true
	}
	if o.twin != "" {
		o.result.Failure = &schemas.FailureFacts{Class: fault.ClassDropped.String(), Stage: "guard", Message: o.twin}
	}
	return nil
}

// recall adds the readings that are kept apart.
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

// early is what a report that is written while the job runs has found at its first pass. Rows that are settled
// afterwards are for the next one, so that all its files speak of the same rows.
type early struct {
	again         time.Duration // until the next one
	settled, done bits          // rows of the input, in order
	left          bool          // a row was found that is not settled yet
}

// note takes the outcome of the next row of the input.
func (e *early) note(o *outcome) {
	if e == nil {
		return
	}
	if o.status == ledger.Done {
		e.done.set(o.at)
	}
	if o.status != ledger.Absent {
		e.settled.set(o.at)
	}
	e.left = e.left || o.status == ledger.Absent
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
