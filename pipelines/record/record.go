// Package record publishes the state of a run: during the run under runs/ in its output and to local displays, and at its end in
// report.html and summary.json.
package record

import (
	"cmp"
	"context"
	"errors"
	"os"
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

// errCancelled is the error of a job that a user cancelled in its output.
var errCancelled = errors.New("the job was cancelled: runs/<job>/stop in its output says so; run it again to go on")

// Record publishes the state of a run under runs/ in its output.
type Record struct {
	ID string // name of the job under runs/ in its output

	engine   *engine.Engine
	info     runfiles.JobInfo                  // constant facts of the job
	away     bool                              // other processes compute
	recorder atomic.Pointer[runfiles.Recorder] // nil: the run has nothing to compute yet
	ended    atomic.Pointer[runfiles.State]    // nil: the run has not ended
	self     atomic.Pointer[runfiles.Facts]    // identity of this process; nil before Identify
	tally    *runpage.Tally                    // times of the run; nil before Watch
	logs     []string                          // log files of the stages' programs
	expected bool                              // the board knows the rows to compute
}

// Run identifies the run of a record.
type Run struct {
	Runner  string // name of the runner
	Version string // version of the program
	File    string // name of the job's YAML file
	Class   string // numeric class
	Shards  int
	Apart   bool // users start the shards separately; all shards use the same ID
	Away    bool // other processes compute
}

// New returns the record of a run. It writes nothing before Watch.
func New(e *engine.Engine, run Run) *Record {
	r := &Record{ID: runfiles.NewID(time.Now()), engine: e, away: run.Away,
		info: runfiles.JobInfo{Runner: run.Runner, Version: run.Version, File: run.File, Shards: run.Shards, Class: run.Class}}
	if run.Apart {
		r.ID = runfiles.ShardsID(run.Shards)
	}
	return r
}

// Board returns the board that receives the events of the run.
func (r *Record) Board() *board.Board { return r.engine.Board }

// Watch starts to write the facts of this process into the output. The returned context is canceled when a user cancels the
// job there.
func (r *Record) Watch(ctx context.Context, p planning.Plan) context.Context {
	r.Expect(p)
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
	r.engine.Board.AddSink(r.tally.Sink())
	ctx, cancel := context.WithCancelCause(ctx)
	r.recorder.Store(runfiles.Record(ctx, r.Folder(), r.Info(), r.Facts, func(s runfiles.Stop) {
		r.engine.Schedule.Stop()
		if s.How == runfiles.Cancel {
			cancel(errCancelled)
		}
	}))
	return ctx
}

// Info returns the job information for runs/ in the output. The start time is now.
func (r *Record) Info() runfiles.JobInfo {
	info := r.info
	info.Output, info.Started = r.engine.Store.URL(), time.Now().UTC().Round(0)
	return info
}

// Folder returns the folder of the run in its output.
func (r *Record) Folder() runfiles.Folder { return runfiles.Folder{Store: r.engine.Store, ID: r.ID} }

// Facts returns the progress of this process. It may be called at any time.
func (r *Record) Facts() runfiles.Facts {
	f := r.engine.Board.Facts()
	for _, s := range r.engine.Progress.Facts() {
		if i := slices.IndexFunc(f.Stages, func(at runfiles.StageTotals) bool { return at.Stage == s.Stage }); i >= 0 {
			f.Stages[i].Beside = s.Beside
		}
	}
	if self := r.self.Load(); self != nil {
		f.Host, f.PID, f.Lock, f.Process = self.Host, self.PID, self.Lock, self.Process
	}
	f.Away, f.State = r.away, r.recorder.Load().State()
	if p := r.engine.Progress; r.away {
		f.Workers = int(p.Workers.Load())
		f.Rows.Done, f.Rows.Failed = p.Done.Load(), max(0, p.Failed.Load()-f.Rows.Bad)
	}
	if ended := r.ended.Load(); ended != nil {
		f.State = *ended
	} else if f.State == "" && r.self.Load() != nil {
		f.State = runfiles.Preparing
	}
	if f.State == runfiles.Running && r.engine.Schedule.Stopping() {
		f.State = runfiles.Stopping
	}
	return f
}

// Finish records how the run of this process ended: with err, or stopped before all rows were settled. The status command shows
// it.
func (r *Record) Finish(ctx context.Context, stopped bool, err error) {
	state := runfiles.Done
	switch {
	case err != nil && ctx.Err() != nil, errors.Is(err, errCancelled):
		state = runfiles.Cancelled
	case err != nil:
		state = runfiles.Failed
	case stopped:
		state = runfiles.Stopped
	}
	r.ended.Store(&state)
	r.recorder.Load().Stop(err)
}

// Skip adds rows to the board's count of skipped rows. A run without work does not read these rows, so nothing else counts them.
func (r *Record) Skip(p planning.Plan) {
	if p.New > 0 {
		r.engine.Board.Skip(0, nil, "")
		return
	}
	r.engine.Board.Skip(p.Done+p.Failed-p.Unusable, p.UnusableBy, p.FirstBad)
}

// Identify records the identity of this process. part and lock are the part and the lock of its shard. Call it before the process
// joins the shards, which changes the part.
func (r *Record) Identify(part, lock string) {
	owner := store.NewOwner("")
	r.self.Store(&runfiles.Facts{Host: owner.Host, PID: owner.PID, Lock: lock, Process: runfiles.Process(cmp.Or(shardName(part), owner.Host))})
}

// Process returns the name of this process; "" before Identify.
func (r *Record) Process() string {
	if self := r.self.Load(); self != nil {
		return self.Process
	}
	return ""
}

// shardName returns the name of a shard's process, derived from its part; "": the run has no shards.
func shardName(part string) string {
	if part == "" {
		return ""
	}
	return "shard-" + part[:len(part)-1]
}

// Expect tells the board which rows are to be computed. Only the first call has an effect.
func (r *Record) Expect(p planning.Plan) {
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

// Running records that the computation of rows starts.
func (r *Record) Running() { r.recorder.Load().SetState(runfiles.Running) }

// Writing records that the writing of the report starts.
func (r *Record) Writing() { r.recorder.Load().SetState(runfiles.Writing) }

// Logs returns the log files with output of the stages' programs. It leaves out empty files.
func (r *Record) Logs() []string {
	return slices.DeleteFunc(slices.Clone(r.logs), func(name string) bool {
		info, err := os.Stat(name)
		return err != nil || info.Size() == 0
	})
}

// LastPage returns the name in the output of the last run's page; "": this run writes no page.
func (r *Record) LastPage(part string) string {
	if r.tally == nil || part != "" {
		return ""
	}
	return runfiles.LastPage
}
