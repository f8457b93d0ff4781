// Package reuse says which results of earlier runs still count: a run computes the others again.
package reuse

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"slices"

	"latentbeam/internal/engine"
	"latentbeam/internal/results/tensors"
	"latentbeam/internal/storage/fingerprints"
	"latentbeam/internal/storage/ledger"
	"latentbeam/internal/storage/store"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// Results are those in the output of a job.
type Results struct {
	Engine  *engine.Engine // of the job
	Tensors *tensors.Home
	Look    func() fingerprints.Look // how closely they are looked at
	Limits  stages.Limits            // of the job's guards

	loosened []uint64 // fingerprints of rows that an earlier guard has left out and this one does not

	told map[string]bool // files of the ledger of whose damage was told
}

// Forget makes the ledger forget, for this run, what has to be computed again although an earlier run has
// settled it: failed rows where they are to be retried, and results that are not all there. It returns
// what says whether an earlier run has published files of a row.
func (o *Results) Forget(ctx context.Context, l *ledger.Ledger, failed bool) (func(schemas.Key) bool, error) {
	if failed {
		l.Forget(ledger.Failed)
	}
	return o.ForgetDamaged(ctx, l)
}

// ForgetDamaged makes the ledger forget what is not all there. It returns what Forget does.
func (o *Results) ForgetDamaged(ctx context.Context, l *ledger.Ledger) (func(schemas.Key) bool, error) {
	sizes := o.Engine.Store.Sizes(ctx)
	defer sizes.Close()
	reading := o.beginReading(ctx)
	var earlier []uint64 // fingerprints of what is forgotten: eight bytes a row
	var failed error
	o.loosened = nil
	_, err := l.ForgetIf(ctx, func(rec ledger.Record) bool {
		if failed == nil && rec.Status == ledger.Failed && o.allows(rec) {
			o.loosened = append(o.loosened, binary.BigEndian.Uint64(rec.Key[:]))
			return true
		}
		if failed != nil || rec.Status != ledger.Done {
			return false
		}
		found, err := o.whole(ctx, rec, sizes, reading)
		failed = err
		if found == whole || err != nil {
			return false
		}
		if found == damagedFile {
			reading.damaged.Add(1)
		}
		if found != never {
			earlier = append(earlier, binary.BigEndian.Uint64(rec.Key[:]))
		}
		return true
	})
	wrong, readErr := reading.end()
	err = errors.Join(err, failed, readErr)
	if err == nil && len(wrong) > 0 {
		_, err = l.ForgetIf(ctx, func(rec ledger.Record) bool {
			_, found := slices.BinarySearch(wrong, binary.BigEndian.Uint64(rec.Key[:]))
			return found && rec.Status == ledger.Done
		})
		earlier = append(earlier, wrong...)
	}
	if n := reading.damaged.Load(); n > 0 {
		slog.Warn("videos or posters are not as they were written: their rows are computed again", "rows", n)
	}
	slices.Sort(earlier)
	slices.Sort(o.loosened)
	return func(key schemas.Key) bool {
		_, found := slices.BinarySearch(earlier, binary.BigEndian.Uint64(key[:]))
		return found || o.told != nil || l.Lost() > 0 // a record that was lost may have been its own
	}, err
}

// allows reports whether an earlier guard has left out a row for a reading that is within the limits now.
func (o *Results) allows(rec ledger.Record) bool {
	if !bytes.Contains(rec.Row, []byte(fault.ClassDropped.String())) { // few rows are left out
		return false
	}
	var r schemas.Result
	return json.Unmarshal(rec.Row, &r) == nil && r.Failure != nil && r.Failure.Class == fault.ClassDropped.String() &&
		o.Limits.Allow(r.Failure.Message)
}

// Loosened reports whether a row is computed because the limits of a guard were loosened.
func (o *Results) Loosened(key schemas.Key) bool {
	_, found := slices.BinarySearch(o.loosened, binary.BigEndian.Uint64(key[:]))
	return found
}

// state says what is there of the results of a finished row.
type state int

const (
	whole       state = iota
	never             // no video was published
	missing           // in part or all
	damagedFile       // a video or a poster is not as it was written
)

// whole says whether a finished row has all that this job publishes: the earlier run may have written
// less (output.write), and somebody may have removed or cut short a video or a table. Files come first, for it is to
// be told that they are damaged.
func (o *Results) whole(ctx context.Context, rec ledger.Record, sizes store.Sizes, reading *reading) (state, error) {
	var r schemas.Result
	if err := json.Unmarshal(rec.Row, &r); err != nil {
		return missing, nil //nolint:nilerr // it is computed again
	}
	if o.Engine.Keep[stages.KindVideo] {
		if r.Video == nil {
			return never, nil
		}
		if found, err := o.wholeVideo(ctx, schemas.Key(rec.Key), r.Video, sizes, reading); found != whole || err != nil {
			return found, err
		}
	}
	if has, err := o.Tensors.Has(ctx, rec, r, o.Engine.Keep); !has || err != nil {
		return missing, err
	}
	return whole, nil
}

// wholeVideo says whether video and poster are there as long as they were written. Where they were written since they
// were read last, reading reads them.
func (o *Results) wholeVideo(ctx context.Context, key schemas.Key, v *schemas.VideoFile, sizes store.Sizes,
	reading *reading) (state, error) {
	found := whole
	var marks [2]string
	for i, f := range []struct {
		name  string
		bytes int64 // 0: not known
	}{{v.Path, v.Bytes}, {v.Poster, v.PosterBytes}} {
		if f.name == "" {
			continue
		}
		info, err := sizes.Of(ctx, f.name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			found = max(found, missing)
		case err != nil:
			return found, err
		case f.bytes > 0 && info.Size != f.bytes:
			found = damagedFile
		}
		marks[i] = info.Mark
	}
	if found != whole {
		o.Tensors.Output.Witness.SetRow(key, fingerprints.RowState{})
		return found, nil
	}
	return whole, reading.look(ctx, key, v, fingerprints.HashMarks(marks[:]...))
}

// Mend warns of damage in the ledger and, where nobody else may be reading it (alone), replaces what is damaged.
func (o *Results) Mend(ctx context.Context, l *ledger.Ledger, alone bool) error {
	for _, d := range l.Damaged() {
		if o.told[d.Segment] {
			continue
		}
		if o.told == nil {
			o.told = map[string]bool{}
		}
		o.told[d.Segment] = true
		lost := []any{"records_lost", d.Lost}
		if d.Lost < 0 {
			lost = []any{"records_lost", "unknown"}
		}
		slog.Warn("a file of the ledger is damaged: rows of lost records are computed again",
			append([]any{"file", d.Segment, "damage", d.Why, "at_byte", d.Offset, "damaged_bytes", d.Bytes,
				"records_saved", d.Saved}, lost...)...)
	}
	if !alone {
		return nil
	}
	return l.Mend(ctx)
}
