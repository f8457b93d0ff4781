// Package reuse decides which results of earlier runs are still valid. A run computes the others again.
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

// Results are the results in the output of a job.
type Results struct {
	Engine  *engine.Engine // engine of the job
	Tensors *tensors.Home
	Depth   func() fingerprints.Look // how thoroughly files are checked
	Limits  stages.Limits            // limits of the job's guards

	loosened []uint64 // key prefixes of rows that an earlier guard dropped and the current limits allow

	warned map[string]bool // damaged ledger files for which a warning was logged
}

// Forget makes the ledger forget, for this run only, settled rows that have to be computed again: failed rows if failed is true, and
// rows whose results are incomplete or damaged. It returns a function that reports whether an earlier run has published
// files of a row.
func (o *Results) Forget(ctx context.Context, l *ledger.Ledger, failed bool) (func(schemas.Key) bool, error) {
	if failed {
		l.Forget(ledger.Failed)
	}
	return o.ForgetDamaged(ctx, l)
}

// ForgetDamaged is Forget without failed rows.
func (o *Results) ForgetDamaged(ctx context.Context, l *ledger.Ledger) (func(schemas.Key) bool, error) {
	sizes := o.Engine.Store.Sizes(ctx)
	defer sizes.Close()
	compared := o.startComparison(ctx)
	var earlier []uint64 // first eight bytes of the keys of forgotten rows
	var failed error
	o.loosened = nil
	_, err := l.ForgetIf(ctx, func(rec ledger.Record) bool {
		if failed == nil && rec.Status == ledger.Failed && o.withinLimits(rec) {
			o.loosened = append(o.loosened, binary.BigEndian.Uint64(rec.Key[:]))
			return true
		}
		if failed != nil || rec.Status != ledger.Done {
			return false
		}
		found, err := o.stateOf(ctx, rec, sizes, compared)
		failed = err
		if found == whole || err != nil {
			return false
		}
		if found == damagedFile {
			compared.damaged.Add(1)
		}
		if found != unpublished {
			earlier = append(earlier, binary.BigEndian.Uint64(rec.Key[:]))
		}
		return true
	})
	wrong, readErr := compared.wait()
	err = errors.Join(err, failed, readErr)
	if err == nil && len(wrong) > 0 {
		_, err = l.ForgetIf(ctx, func(rec ledger.Record) bool {
			_, found := slices.BinarySearch(wrong, binary.BigEndian.Uint64(rec.Key[:]))
			return found && rec.Status == ledger.Done
		})
		earlier = append(earlier, wrong...)
	}
	if n := compared.damaged.Load(); n > 0 {
		slog.Warn("videos or posters are not as they were written: their rows are computed again", "rows", n)
	}
	slices.Sort(earlier)
	slices.Sort(o.loosened)
	return func(key schemas.Key) bool {
		_, found := slices.BinarySearch(earlier, binary.BigEndian.Uint64(key[:]))
		return found || o.warned != nil || l.Lost() > 0 // a lost record may have been this row's
	}, err
}

// withinLimits reports whether a guard dropped a row in an earlier run for a reading that the current limits allow.
func (o *Results) withinLimits(rec ledger.Record) bool {
	if !bytes.Contains(rec.Row, []byte(fault.ClassDropped.String())) { // few rows are dropped, so avoid decoding the others
		return false
	}
	var r schemas.Result
	return json.Unmarshal(rec.Row, &r) == nil && r.Failure != nil && r.Failure.Class == fault.ClassDropped.String() &&
		o.Limits.Allow(r.Failure.Message)
}

// Loosened reports whether a row is computed because the limits of a guard have become less strict.
func (o *Results) Loosened(key schemas.Key) bool {
	_, found := slices.BinarySearch(o.loosened, binary.BigEndian.Uint64(key[:]))
	return found
}

// state describes how much of the results of a finished row exists.
type state int

const (
	whole       state = iota
	unpublished       // no video was published
	missing           // some or all results are missing
	damagedFile       // a video or a poster has changed since it was written
)

// stateOf checks whether a finished row has all results that this job publishes. The earlier run may have published
// less (output.write), and a user may have removed or truncated a video or a table. It checks files before tables, because damaged
// files are reported.
func (o *Results) stateOf(ctx context.Context, rec ledger.Record, sizes store.Sizes, compared *comparison) (state, error) {
	var r schemas.Result
	if err := json.Unmarshal(rec.Row, &r); err != nil {
		return missing, nil //nolint:nilerr // it is computed again
	}
	if o.Engine.Keep[stages.KindVideo] {
		if r.Video == nil {
			return unpublished, nil
		}
		if found, err := o.stateOfVideo(ctx, schemas.Key(rec.Key), r.Video, sizes, compared); found != whole || err != nil {
			return found, err
		}
	}
	if has, err := o.Tensors.Has(ctx, rec, r, o.Engine.Keep); !has || err != nil {
		return missing, err
	}
	return whole, nil
}

// stateOfVideo checks that a video and its poster exist with their recorded sizes. If they changed since they were last read,
// it gives them to compared, which reads them.
func (o *Results) stateOfVideo(ctx context.Context, key schemas.Key, v *schemas.VideoFile, sizes store.Sizes,
	compared *comparison) (state, error) {
	found := whole
	var marks [2]string
	for i, f := range []struct {
		name  string
		bytes int64 // size; 0: not known
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
	return whole, compared.add(ctx, key, v, fingerprints.HashMarks(marks[:]...))
}

// Mend logs a warning for each damaged file of the ledger. If no other process may be using the ledger (alone), Mend repairs it.
func (o *Results) Mend(ctx context.Context, l *ledger.Ledger, alone bool) error {
	for _, d := range l.Damaged() {
		if o.warned[d.Segment] {
			continue
		}
		if o.warned == nil {
			o.warned = map[string]bool{}
		}
		o.warned[d.Segment] = true
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
