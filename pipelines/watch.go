package pipelines

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"time"

	"latentbeam/internal/engine"
	"latentbeam/internal/storage/store"
	"latentbeam/internal/watch/board"
	"latentbeam/internal/watch/runfiles"
	"latentbeam/internal/watch/runpage"
)

// errCancelled is why a job ends at once that was asked to in its output.
var errCancelled = errors.New("the job was cancelled: runs/<job>/stop in its output says so; run it again to go on")

// watch writes the facts of this process into the output from now on. The context that it returns ends when somebody
// cancels the job there.
func (j *Job) watch(ctx context.Context, p Plan) context.Context {
	j.expect(p)
	if j.recorder.Load() != nil {
		return ctx
	}
	dir := ""
	if !store.HasScheme(j.engine.Store.URL()) {
		dir = filepath.Join(j.engine.Store.URL(), runfiles.Prefix, j.RunID())
	}
	for _, s := range j.engine.Schedule.Steps {
		if log := s.Capabilities().Log; log != nil && !j.elsewhere() {
			if name := log(dir); name != "" && !slices.Contains(j.logs, name) {
				j.logs = append(j.logs, name)
			}
		}
	}
	j.tally = new(runpage.Tally)
	j.engine.Board.Add(j.tally.Sink())
	ctx, cancel := context.WithCancelCause(ctx)
	j.recorder.Store(runfiles.Record(ctx, runfiles.Folder{Store: j.engine.Store, ID: j.RunID()}, j.runInfo(), j.Facts, func(s runfiles.Stop) {
		j.Stop()
		if s.How == runfiles.Cancel {
			cancel(errCancelled)
		}
	}))
	return ctx
}

// runInfo is what the output says of this run.
func (j *Job) runInfo() runfiles.JobInfo {
	return runfiles.JobInfo{Output: j.engine.Store.URL(), Runner: j.runner.Name, Version: j.Opts.Version, Started: time.Now().UTC().Round(0),
		File: j.Opts.Start.File, Shards: j.Opts.Shards, Class: j.engine.Rules.Class}
}

// RunID names the job under runs/ in its output.
func (j *Job) RunID() string {
	j.naming.Do(func() {
		if j.runID = runfiles.NewID(time.Now()); j.Opts.Shards > 1 && !j.spread() { // a cluster has processes of its own
			j.runID = runfiles.ShardsID(j.Opts.Shards)
		}
	})
	return j.runID
}

// Facts says how far this process is. It may be called at any time.
func (j *Job) Facts() runfiles.Facts {
	f := j.engine.Board.Facts()
	for _, s := range j.engine.Progress.Facts() {
		if i := slices.IndexFunc(f.Stages, func(at runfiles.StageTotals) bool { return at.Stage == s.Stage }); i >= 0 {
			f.Stages[i].Beside = s.Beside
		}
	}
	if me := j.me.Load(); me != nil {
		f.Host, f.PID, f.Lock, f.Process = me.Host, me.PID, me.Lock, me.Process
	}
	f.Away, f.State = j.elsewhere(), j.recorder.Load().State()
	if ended := j.ended.Load(); ended != nil {
		f.State = *ended
	} else if f.State == "" && j.me.Load() != nil {
		f.State = runfiles.Preparing
	}
	if f.State == runfiles.Running && j.engine.Schedule.Stopping() {
		f.State = runfiles.Stopping
	}
	return f
}

// end records how the run of this process ended, as status shows it.
func (j *Job) end(ctx context.Context, r Result, err error) {
	state := runfiles.Done
	switch {
	case err != nil && ctx.Err() != nil, errors.Is(err, errCancelled):
		state = runfiles.Cancelled
	case err != nil:
		state = runfiles.Failed
	case r.Interrupted && r.Totals.Pending > 0:
		state = runfiles.Stopped
	}
	j.ended.Store(&state)
	j.recorder.Load().Stop(err)
}

// passOver tells the board of rows that a run without work does not read.
func (j *Job) passOver(p Plan) {
	if p.New > 0 {
		j.engine.Board.PassOver(0, nil, "")
		return
	}
	j.engine.Board.PassOver(p.Done+p.Failed-p.Unusable, p.unusable, p.firstBad)
}

// identify notes who this process is, before it may become the one that joins all shards.
func (j *Job) identify() {
	owner := store.NewOwner("")
	j.me.Store(&runfiles.Facts{Host: owner.Host, PID: owner.PID, Lock: j.lockName(),
		Process: runfiles.Process(cmp.Or(j.shardName(), owner.Host))})
}

// shardName names this process among those of its job, "" where it is the only one.
func (j *Job) shardName() string {
	if j.report.Part == "" {
		return ""
	}
	return "shard-" + j.report.Part[:len(j.report.Part)-1]
}

// Board is told what happens while the job runs.
func (j *Job) Board() *board.Board { return j.engine.Board }

// expect tells the board which rows are to be computed, once.
func (j *Job) expect(p Plan) {
	if j.expected {
		return
	}
	j.expected = true
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
	j.engine.Board.Expect(shapes)
}

// Completed reports whether the run has settled the last rows of the whole output.
func (r Result) Completed() bool {
	return !r.NothingToDo && !r.Interrupted && r.Totals.Pending == 0 && (r.whole || r.Joined)
}

// Summary reads the summary of the output, and where it is.
func (j *Job) Summary(ctx context.Context) (data []byte, output string, err error) {
	data, err = store.ReadFile(ctx, j.engine.Store, j.report.SummaryName())
	return data, j.engine.Store.URL(), err
}
