package pipelines

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"slices"

	"latentbeam/internal/ledger"
	"latentbeam/internal/store"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// forget makes the ledger forget, for this run, what has to be computed again although an earlier run has
// settled it: failed rows where they are to be retried, and results that are not all there.
func (j *Job) forget(ctx context.Context, l *ledger.Ledger) error {
	if j.Opts.Retry {
		l.Forget(ledger.Failed)
	}
	sizes := j.engine.Store.Sizes(ctx)
	defer sizes.Close()
	j.engine.Damaged = map[schemas.Key]bool{}
	var failed error
	_, err := l.ForgetIf(ctx, func(rec ledger.Record) bool {
		if failed != nil || rec.Status != ledger.Done {
			return false
		}
		whole, err := j.whole(ctx, rec, sizes)
		failed = err
		return !whole && err == nil
	})
	if n := len(j.engine.Damaged); n > 0 {
		slog.Warn("videos or posters are not as they were written: their rows are computed again", "rows", n)
	}
	return errors.Join(err, failed)
}

// whole reports whether a finished row has all that this job publishes: the earlier run may have written
// less (output.write), and somebody may have removed or cut short a video or a table.
func (j *Job) whole(ctx context.Context, rec ledger.Record, sizes store.Sizes) (bool, error) {
	var r schemas.Result
	if err := json.Unmarshal(rec.Row, &r); err != nil {
		return false, nil //nolint:nilerr // it is computed again
	}
	keep := j.engine.Keep
	var tensors []string
	if keep[stages.KindText] {
		tensors = append(tensors, schemas.BlobText)
		if len(r.NegativeTextShape) > 0 {
			tensors = append(tensors, schemas.BlobNegativeText)
		}
		if len(r.LaterTexts) > 0 {
			tensors = append(tensors, schemas.BlobLaterText)
		}
	}
	if keep[stages.KindLatents] {
		tensors = append(tensors, schemas.BlobLatents)
	}
	for _, name := range tensors {
		if slices.ContainsFunc(rec.Blobs, func(b ledger.Blob) bool { return b.Name == name }) {
			continue
		}
		if held, err := j.report.Holds(ctx, rec.Key, name); !held || err != nil {
			return false, err
		}
	}
	if !keep[stages.KindVideo] {
		return true, nil
	}
	if r.Video == nil {
		return false, nil
	}
	return j.wholeVideo(ctx, schemas.Key(rec.Key), r.Video, sizes)
}

// wholeVideo reports whether video and poster are there as long as they were written. What is there otherwise is
// Damaged.
func (j *Job) wholeVideo(ctx context.Context, key schemas.Key, v *schemas.VideoFile, sizes store.Sizes) (bool, error) {
	whole := true
	for _, f := range []struct {
		name  string
		bytes int64 // 0: not known
	}{{v.Path, v.Bytes}, {v.Poster, v.PosterBytes}} {
		if f.name == "" {
			continue
		}
		size, err := sizes.Of(ctx, f.name)
		found := err == nil
		if !found && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
		if found && f.bytes > 0 && size != f.bytes {
			j.engine.Damaged[key] = true
			found = false
		}
		whole = whole && found
	}
	return whole, nil
}
