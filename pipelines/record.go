package pipelines

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"latentbeam/internal/engine"
	"latentbeam/internal/storage/store"
	"latentbeam/internal/watch/board"
	"latentbeam/internal/watch/runfiles"
	"latentbeam/internal/watch/runpage"
	"latentbeam/pipelines/planning"
)

// errCancelled is why a job ends at once that was asked to in its output.
var errCancelled = errors.New("the job was cancelled: runs/<job>/stop in its output says so; run it again to go on")

// Record is what a run says of itself: under runs/ in its output, and to those who watch it.
type Record struct {
	ID string // names the job under runs/ in its output

	engine   *engine.Engine
	info     runfiles.JobInfo                  // what does not change
	away     bool                              // the workers of the job are other processes
	recorder atomic.Pointer[runfiles.Recorder] // nil: nothing is to be computed so far
	ended    atomic.Pointer[runfiles.State]    // nil: the run has not ended
	me       atomic.Pointer[runfiles.Facts]    // who this process is
	tally    *runpage.Tally                    // where its time goes; nil before
	logs     []string                          // of the programs of the run
	expected bool                              // the board knows what is to be computed
}

// newRecord has recorded nothing yet. Shards of one job that run on their own have one ID.
func newRecord(e *engine.Engine, info runfiles.JobInfo, ownShards, away bool) *Record {
	r := &Record{ID: runfiles.NewID(time.Now()), engine: e, info: info, away: away}
	if ownShards {
		r.ID = runfiles.ShardsID(info.Shards)
	}
	return r
}

// Board is told what happens while the job runs.
func (r *Record) Board() *board.Board { return r.engine.Board }

// watch writes the facts of this process into the output from now on. The context that it returns ends when somebody
// cancels the job there.
func (r *Record) watch(ctx context.Context, p planning.Plan) context.Context {
	r.expect(p)
	if r.recorder.Load() != nil {
		return ctx
	}
	dir := ""
	if !store.HasScheme(r.engine.Store.URL()) {
		dir = filepath.Join(r.engine.Store.URL(), runfiles.Prefix, r.ID)
	}
	for _, s := range r.engine.Schedule.Steps {
		if log := s.Capabilities().Log; log != nil && !r.away {
			if name := log(dir); name != "" && !slices.Contains(r.logs, name) {
				r.logs = append(r.logs, name)
			}
		}
	}
	r.tally = new(runpage.Tally)
	r.engine.Board.Add(r.tally.Sink())
	ctx, cancel := context.WithCancelCause(ctx)
	r.recorder.Store(runfiles.Record(ctx, r.folder(), r.jobInfo(), r.Facts, func(s runfiles.Stop) {
		r.engine.Schedule.Stop()
		if s.How == runfiles.Cancel {
			cancel(errCancelled)
		}
	}))
	return ctx
}

// jobInfo is what the output says of this run, from now on.
func (r *Record) jobInfo() runfiles.JobInfo {
	info := r.info
	info.Output, info.Started = r.engine.Store.URL(), time.Now().UTC().Round(0)
	return info
}

// folder is the place of the run in its output.
func (r *Record) folder() runfiles.Folder { return runfiles.Folder{Store: r.engine.Store, ID: r.ID} }

// Facts says how far this process is. It may be called at any time.
func (r *Record) Facts() runfiles.Facts {
	f := r.engine.Board.Facts()
	for _, s := range r.engine.Progress.Facts() {
		if i := slices.IndexFunc(f.Stages, func(at runfiles.StageTotals) bool { return at.Stage == s.Stage }); i >= 0 {
			f.Stages[i].Beside = s.Beside
		}
	}
	if me := r.me.Load(); me != nil {
		f.Host, f.PID, f.Lock, f.Process = me.Host, me.PID, me.Lock, me.Process
	}
	f.Away, f.State = r.away, r.recorder.Load().State()
	if p := r.engine.Progress; r.away {
		f.Workers = int(p.Workers.Load())
		f.Rows.Done, f.Rows.Failed = p.Done.Load(), max(0, p.Failed.Load()-f.Rows.Bad)
	}
	if ended := r.ended.Load(); ended != nil {
		f.State = *ended
	} else if f.State == "" && r.me.Load() != nil {
		f.State = runfiles.Preparing
	}
	if f.State == runfiles.Running && r.engine.Schedule.Stopping() {
		f.State = runfiles.Stopping
	}
	return f
}

// end records how the run of this process ended, as status shows it.
func (r *Record) end(ctx context.Context, result Result, err error) {
	state := runfiles.Done
	switch {
	case err != nil && ctx.Err() != nil, errors.Is(err, errCancelled):
		state = runfiles.Cancelled
	case err != nil:
		state = runfiles.Failed
	case result.Interrupted && result.Totals.Pending > 0:
		state = runfiles.Stopped
	}
	r.ended.Store(&state)
	r.recorder.Load().Stop(err)
}

// passOver tells the board of rows that a run without work does not read.
func (r *Record) passOver(p planning.Plan) {
	if p.New > 0 {
		r.engine.Board.PassOver(0, nil, "")
		return
	}
	r.engine.Board.PassOver(p.Done+p.Failed-p.Unusable, p.UnusableBy, p.FirstBad)
}

// identify notes who this process is, before it may become the one that joins all shards: part is its shard's, lock its lock.
func (r *Record) identify(part, lock string) {
	owner := store.NewOwner("")
	r.me.Store(&runfiles.Facts{Host: owner.Host, PID: owner.PID, Lock: lock, Process: runfiles.Process(cmp.Or(shardName(part), owner.Host))})
}

// process names this process, "" before identify.
func (r *Record) process() string {
	if me := r.me.Load(); me != nil {
		return me.Process
	}
	return ""
}

// shardName names a process among those of its job by its part, "" where it is the only one.
func shardName(part string) string {
	if part == "" {
		return ""
	}
	return "shard-" + part[:len(part)-1]
}

// expect tells the board which rows are to be computed, once.
func (r *Record) expect(p planning.Plan) {
	if r.expected {
		return
	}
	r.expected = true
	var shapes []board.ShapeWork
	for _, b := range p.Buckets {
		name := engine.ShapeName(&b.First)
		weight := float64(b.Shape.Width) * float64(b.Shape.Height) * float64(max(1, b.Shape.NumFrames)) *
			float64(max(1, b.Shape.NumInferenceSteps))
		if i := slices.IndexFunc(shapes, func(s board.ShapeWork) bool { return s.Name == name }); i >= 0 {
			shapes[i].Rows += b.Keys
			continue
		}
		shapes = append(shapes, board.ShapeWork{Name: name, Rows: b.Keys, Weight: weight})
	}
	r.engine.Board.Expect(shapes)
}
