package pipelines

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"latentbeam/internal/ledger"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// forget makes the ledger forget, for this run, what has to be computed again although an earlier run has
// settled it: failed rows where they are to be retried, and results that are not all there.
func (j *Job) forget(ctx context.Context, l *ledger.Ledger) error {
	if j.Opts.Retry {
		l.Forget(ledger.Failed)
	}
	var failed error
	_, err := l.ForgetIf(ctx, func(rec ledger.Record) bool {
		if failed != nil || rec.Status != ledger.Done {
			return false
		}
		whole, err := j.whole(rec)
		failed = err
		return !whole && err == nil
	})
	return errors.Join(err, failed)
}

// whole reports whether a finished row has all that this job publishes: the earlier run may have written
// less (output.write), and somebody may have removed a video or a table.
func (j *Job) whole(rec ledger.Record) (bool, error) {
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
		if held, err := j.report.Holds(rec.Key, name); !held || err != nil {
			return false, err
		}
	}
	if !keep[stages.KindVideo] {
		return true, nil
	}
	dir := j.engine.Store
	return r.Video != nil && dir.Exists(r.Video.Path) && (r.Video.Poster == "" || dir.Exists(r.Video.Poster)), nil
}
