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

// Book stores the readings of an output apart from its results. The key of a reading covers the video or media that was looked at
// and the measure. Methods may be called concurrently.
type Book struct {
	rules  *keys.Rules
	shown  []stages.Measure // measures of other jobs that tables show; this job does not compute their missing readings
	ledger *ledger.Ledger   // nil: no step of the job only measures, and no measure is shown
	mu     sync.Mutex
	cursor *ledger.Cursor
}

// OpenBook opens the readings in a store for the steps of rules. shown are measures of other jobs that looked at the output's videos.
func OpenBook(ctx context.Context, s store.Store, rules *keys.Rules, shown []stages.Measure) (*Book, error) {
	b := &Book{rules: rules}
	for _, m := range shown {
		if !slices.ContainsFunc(rules.Steps, func(s stages.Step) bool {
			return s.MeasuresOnly && slices.ContainsFunc(s.Capabilities().Measures, func(own stages.Measure) bool { return own.Name == m.Name })
		}) {
			b.shown = append(b.shown, m)
		}
	}
	if len(b.shown) == 0 && !slices.ContainsFunc(rules.Steps, func(s stages.Step) bool { return s.MeasuresOnly }) {
		return b, nil
	}
	var err error
	if b.ledger, err = ledger.OpenIn(ctx, s, ledger.Readings); err != nil {
		return nil, fmt.Errorf("readings: %w", err)
	}
	b.cursor = b.ledger.Cursor()
	return b, nil
}

// Close releases the ledger and its cursor.
func (b *Book) Close() {
	if b.ledger == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cursor.Close()
	b.ledger.Close()
}

// Refresh loads readings that other processes have recorded.
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

// Looks reports whether readings are stored apart from results.
func (b *Book) Looks() bool { return b.ledger != nil }

// Names lists the measures of the job, each with the ID that its readings depend on; nil: no readings are stored apart.
func (b *Book) Names() (all []string) {
	for _, s := range b.rules.Steps {
		if !s.MeasuresOnly {
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

// Recall loads the stored readings of an element with result r into e.Looked and e.LookFailed. lacking reports whether some measure
// has not looked at the element yet. Recall removes readings from r that an earlier release stored there; they count if the job has the
// same measure.
func (b *Book) Recall(e *stages.Element, r *schemas.Result) (lacking bool, err error) {
	var legacy map[string]map[string]string
	if looks := b.rules.Looks(e); looks != nil {
		var others []string
		for _, s := range b.rules.Steps {
			if !s.MeasuresOnly {
				others = append(others, s.Spec.Readings...)
			}
		}
		legacy, r.Readings = looks.Claimed(r.Readings, append(others, "prompt"))
	}
	for _, s := range b.rules.Steps {
		if !s.MeasuresOnly || s.Gives == stages.KindVideo && r.Video == nil {
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

// recall is Recall for one measure.
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
		e.AddReadings(m, was.Readings)
	case rec.Status == ledger.Failed && was.Failure != nil:
		e.LookFail(m, &stages.Failure{Stage: step, Message: was.Failure.Message})
	default:
		readings, read := legacy[m.ID()]
		if read {
			e.AddReadings(m, readings)
		}
		return !read, nil
	}
	return false, nil
}

// records returns the readings of an element that the book lacks. video is the digest of the published video; "": none is
// published.
func (b *Book) records(e *stages.Element, video string) (all []ledger.Record, err error) {
	if b == nil || b.ledger == nil {
		return nil, nil
	}
	for _, s := range b.rules.Steps {
		if !s.MeasuresOnly || s.Gives == stages.KindVideo && video == "" {
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
