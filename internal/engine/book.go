package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"latentbeam/internal/engine/keys"
	"latentbeam/internal/storage/ledger"
	"latentbeam/internal/storage/store"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// Book is the readings of an output. They are no part of its results and have keys of their own: of what was looked at and of the
// measure. Its methods may be called concurrently.
type Book struct {
	rules  *keys.Rules
	shown  []stages.Measure // of videos; tables have what they have read, and nothing is lacking without them
	ledger *ledger.Ledger   // nil: no step only looks
	mu     sync.Mutex
	cursor *ledger.Cursor
}

// OpenBook opens the readings in a store for the steps of rules, and for measures of other jobs that have looked at its videos.
func OpenBook(ctx context.Context, s store.Store, rules *keys.Rules, shown []stages.Measure) (*Book, error) {
	b := &Book{rules: rules}
	for _, m := range shown {
		if !slices.ContainsFunc(rules.Steps, func(s stages.Step) bool {
			return s.Looks && slices.ContainsFunc(s.Capabilities().Measures, func(own stages.Measure) bool { return own.Name == m.Name })
		}) {
			b.shown = append(b.shown, m)
		}
	}
	if len(b.shown) == 0 && !slices.ContainsFunc(rules.Steps, func(s stages.Step) bool { return s.Looks }) {
		return b, nil
	}
	var err error
	if b.ledger, err = ledger.OpenIn(ctx, s, ledger.Readings); err != nil {
		return nil, fmt.Errorf("readings: %w", err)
	}
	b.cursor = b.ledger.Cursor()
	return b, nil
}

// Close gives back what the book holds.
func (b *Book) Close() {
	if b.ledger == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cursor.Close()
	b.ledger.Close()
}

// Refresh takes in what other processes have read.
func (b *Book) Refresh(ctx context.Context) error {
	if b.ledger == nil {
		return nil
	}
	return b.ledger.Refresh(ctx)
}

// Mend replaces damaged segments. The caller holds the lock on the output.
func (b *Book) Mend(ctx context.Context) error {
	if b.ledger == nil {
		return nil
	}
	for _, d := range b.ledger.Damaged() {
		slog.Warn("a file of readings is damaged: measures look again where records are lost", "file", d.Segment, "damage", d.Why)
	}
	return b.ledger.Mend(ctx)
}

// Retry forgets that measures have failed.
func (b *Book) Retry() {
	if b.ledger != nil {
		b.ledger.Forget(ledger.Failed)
	}
}

// Looks reports whether readings are kept apart from results.
func (b *Book) Looks() bool { return b.ledger != nil }

// Names lists the measures of the job by what readings depend on; nil: none are kept apart.
func (b *Book) Names() (all []string) {
	for _, s := range b.rules.Steps {
		if !s.Looks {
			continue
		}
		for _, m := range s.Capabilities().Measures {
			all = append(all, s.Name+" "+m.ID())
		}
	}
	for _, m := range b.shown {
		all = append(all, "shown "+m.ID())
	}
	return all
}

// Recall brings what the job's measures have read off an element that has the result r into e.Looked and e.LookFailed, and reports
// whether some measure has not looked at it yet. Readings that an earlier job has put into the result leave r: they count where the
// job has the same measure.
func (b *Book) Recall(e *stages.Element, r *schemas.Result) (lacking bool, err error) {
	var legacy map[string]map[string]string
	if looks := b.rules.Looks(e); looks != nil {
		var others []string
		for _, s := range b.rules.Steps {
			if !s.Looks {
				others = append(others, s.Spec.Readings...)
			}
		}
		legacy, r.Readings = looks.Claimed(r.Readings, append(others, "prompt"))
	}
	for _, s := range b.rules.Steps {
		if !s.Looks || s.Gives == stages.KindVideo && r.Video == nil {
			continue
		}
		video := ""
		if s.Gives == stages.KindVideo {
			video = r.Video.SHA256
		}
		for _, m := range s.Capabilities().Measures {
			lacks, err := b.recall(e, s.Name, m, video, legacy)
			if err != nil {
				return false, err
			}
			lacking = lacking || lacks
		}
	}
	if r.Video == nil {
		return lacking, nil
	}
	for _, m := range b.shown {
		if _, err := b.recall(e, "score", m, r.Video.SHA256, nil); err != nil {
			return false, err
		}
		delete(e.LookFailed, m.ID())
	}
	return lacking, nil
}

// recall is Recall of one measure.
func (b *Book) recall(e *stages.Element, step string, m stages.Measure, video string, legacy map[string]map[string]string) (lacks bool, err error) {
	key, err := b.rules.Reading(m, e, video)
	if err != nil {
		return false, err
	}
	b.mu.Lock()
	rec, err := b.cursor.Find(ledger.Key(key))
	var was schemas.Reading
	if err == nil && rec.Status != ledger.Absent {
		err = json.Unmarshal(rec.Row, &was) // valid until the next Find
	}
	b.mu.Unlock()
	switch {
	case err != nil:
		return false, err
	case rec.Status == ledger.Done:
		e.Look(m, was.Readings)
	case rec.Status == ledger.Failed && was.Failure != nil:
		e.LookFail(m, &stages.Failure{Stage: step, Message: was.Failure.Message})
	default:
		readings, read := legacy[m.ID()]
		if read {
			e.Look(m, readings)
		}
		return !read, nil
	}
	return false, nil
}

// records are the readings of an element that the book does not have. video is the digest of the published video, "" where there is
// none.
func (b *Book) records(e *stages.Element, video string) (all []ledger.Record, err error) {
	if b == nil || b.ledger == nil {
		return nil, nil
	}
	for _, s := range b.rules.Steps {
		if !s.Looks || s.Gives == stages.KindVideo && video == "" {
			continue
		}
		at := ""
		if s.Gives == stages.KindVideo {
			at = video
		}
		for _, m := range s.Capabilities().Measures {
			row, status := schemas.Reading{Measure: m.Name}, ledger.Done
			switch failure := e.LookFailed[m.ID()]; {
			case failure != nil:
				row.Failure, status = &schemas.FailureFacts{Class: failure.Class.String(), Stage: failure.Stage, Message: failure.Message}, ledger.Failed
			case e.Lacks(m):
				continue
			default:
				row.Readings = e.Looked[m.ID()]
			}
			key, err := b.rules.Reading(m, e, at)
			if err != nil {
				return nil, err
			}
			if _, is, err := b.ledger.Lookup(ledger.Key(key)); err != nil || is == status {
				if err != nil {
					return nil, err
				}
				continue
			}
			js, err := json.Marshal(row)
			if err != nil {
				return nil, err
			}
			all = append(all, ledger.Record{Key: ledger.Key(key), Status: status, Row: js})
		}
	}
	return all, nil
}

// commit writes readings.
func (b *Book) commit(ctx context.Context, records []ledger.Record) error {
	if len(records) == 0 {
		return nil
	}
	return b.ledger.Commit(ctx, records)
}
