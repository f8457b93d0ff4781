package pipelines

import (
	"context"
	"encoding/json"

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
	_, err := l.ForgetIf(ctx, func(rec ledger.Record) bool { return rec.Status == ledger.Done && !j.whole(rec.Row) })
	return err
}

// whole reports whether a finished row has all that this job publishes: the earlier run may have written
// less (output.write), and somebody may have removed a video.
func (j *Job) whole(row []byte) bool {
	var r schemas.Result
	if err := json.Unmarshal(row, &r); err != nil {
		return false
	}
	keep, dir := j.engine.Keep, j.engine.Store
	switch {
	case keep[stages.KindText] && len(r.TextShape) == 0,
		keep[stages.KindLatents] && len(r.LatentsShape) == 0,
		keep[stages.KindVideo] && r.Video == nil:
		return false
	case !keep[stages.KindVideo]:
		return true
	}
	return dir.Exists(r.Video.Path) && (r.Video.Poster == "" || dir.Exists(r.Video.Poster))
}
