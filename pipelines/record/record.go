// Package record is what a run says of itself: while it runs under runs/ of its output and to those who watch it, and at its end.
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

// Run says of which run a record is.
type Run struct {
	Runner  string // its name
	Version string // of the program
	File    string // of the job
	Class   string // numeric class
	Shards  int
	Apart   bool // the shards run on their own, and have one ID
	Away    bool // the workers of the job are other processes
}

// New returns the record of a run, which has recorded nothing yet.
func New(e *engine.Engine, run Run) *Record {
	r := &Record{ID: runfiles.NewID(time.Now()), engine: e, away: run.Away,
		info: runfiles.JobInfo{Runner: run.Runner, Version: run.Version, File: run.File, Shards: run.Shards, Class: run.Class}}
	if run.Apart {
		r.ID = runfiles.ShardsID(run.Shards)
	}
	return r
}

// Board is told what happens while the job runs.
func (r *Record) Board() *board.Board { return r.engine.Board }

// Watch writes the facts of this process into the output from now on. The context that it returns ends when somebody
// cancels the job there.
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
	r.engine.Board.Add(r.tally.Sink())
	ctx, cancel := context.WithCancelCause(ctx)
	r.recorder.Store(runfiles.Record(ctx, r.Folder(), r.Info(), r.Facts, func(s runfiles.Stop) {
		r.engine.Schedule.Stop()
		if s.How == runfiles.Cancel {
			cancel(errCancelled)
		}
	}))
	return ctx
}

// Info is what the output says of this run, from now on.
func (r *Record) Info() runfiles.JobInfo {
	info := r.info
	info.Output, info.Started = r.engine.Store.URL(), time.Now().UTC().Round(0)
	return info
}

// Folder is the place of the run in its output.
func (r *Record) Folder() runfiles.Folder { return runfiles.Folder{Store: r.engine.Store, ID: r.ID} }

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

// End records how the run of this process ended, as status shows it: with err, or stopped before all was done.
func (r *Record) End(ctx context.Context, stopped bool, err error) {
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

// PassOver tells the board of rows that a run without work does not read.
func (r *Record) PassOver(p planning.Plan) {
	if p.New > 0 {
		r.engine.Board.PassOver(0, nil, "")
		return
	}
	r.engine.Board.PassOver(p.Done+p.Failed-p.Unusable, p.UnusableBy, p.FirstBad)
}

// Identify notes who this process is, before it may become the one that joins all shards: part is its shard's, lock its lock.
func (r *Record) Identify(part, lock string) {
	owner := store.NewOwner("")
	r.me.Store(&runfiles.Facts{Host: owner.Host, PID: owner.PID, Lock: lock, Process: runfiles.Process(cmp.Or(shardName(part), owner.Host))})
}

// Process names this process, "" before Identify.
func (r *Record) Process() string {
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

// Expect tells the board which rows are to be computed, once.
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

// Running records that rows are computed from now on.
func (r *Record) Running() { r.recorder.Load().Set(runfiles.Running) }

// Writing records that the report is written from now on.
func (r *Record) Writing() { r.recorder.Load().Set(runfiles.Writing) }

// Logs are the files with what the programs of the run printed.
func (r *Record) Logs() []string {
	return slices.DeleteFunc(slices.Clone(r.logs), func(name string) bool {
		info, err := os.Stat(name)
		return err != nil || info.Size() == 0
	})
}

// LastPage is the name of the page of the last run in the output, "" where this run writes none.
func (r *Record) LastPage(part string) string {
	if r.tally == nil || part != "" {
		return ""
	}
	return runfiles.LastPage
}
