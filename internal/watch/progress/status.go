package progress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"latentbeam/internal/storage/store"
	"latentbeam/internal/watch/runfiles"
)

// Process is a process of a job with its Life.
type Process struct {
	runfiles.Facts
	Life runfiles.Life `json:"life"`
}

// Status is the status of the last job of an output, or of a given one. `status --json` prints it.
type Status struct {
	Schema    int                `json:"schema"` // 1
	At        time.Time          `json:"at"`
	Output    string             `json:"output"`
	Job       runfiles.JobInfo   `json:"job"`
	Stop      *runfiles.Stop     `json:"stop,omitempty"`
	State     string             `json:"state"` // running, done, stopped, cancelled, failed, dead or silent
	Rows      runfiles.Rows      `json:"rows"`  // sum of all processes
	ETA       float64            `json:"eta_s,omitempty"`
	Processes []Process          `json:"processes"`
	Stuck     []Stuck            `json:"stuck"`
	jobs      []runfiles.JobInfo // all jobs under runs/
}

// Stuck is a batch or process that has made no progress for too long.
type Stuck struct {
	Process string    `json:"process"`
	What    string    `json:"what"`
	Since   time.Time `json:"since"`
}

// ErrNoJob says that an output has no job under runs/, or not the given one.
var ErrNoJob = errors.New("the output has no record of a job")

// Read reads the status of a job of an output; id "": the last job.
func Read(ctx context.Context, s store.Store, id string) (Status, error) {
	st := Status{Schema: 1, At: time.Now().UTC().Round(0), Output: s.URL(), Processes: []Process{}, Stuck: []Stuck{}}
	var err error
	if st.jobs, err = runfiles.List(ctx, s); err != nil {
		return st, err
	}
	found := false
	for _, info := range st.jobs {
		if found = id == "" || info.ID == id; found {
			st.Job = info
			break
		}
	}
	if !found {
		return st, ErrNoJob
	}
	job := runfiles.Folder{Store: s, ID: st.Job.ID}
	if st.Stop, err = job.Stopped(ctx); err != nil {
		return st, err
	}
	facts, err := job.ReadFacts(ctx)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return st, err
	}
	away := sumAway(facts)
	for _, f := range facts {
		life, err := job.LifeOf(ctx, f, time.Now())
		if err != nil {
			return st, err
		}
		st.add(Process{f, life}, f.Away || !away)
	}
	st.State = st.state()
	return st, nil
}

// sumAway sets the row counts of a submitter whose rows other processes compute to the sum of those processes. It reports whether
// there is such a submitter.
func sumAway(facts []runfiles.Facts) bool {
	i := slices.IndexFunc(facts, func(f runfiles.Facts) bool { return f.Away })
	if i < 0 {
		return false
	}
	rows := &facts[i].Rows
	rows.Done, rows.Failed = 0, 0
	for j, f := range facts {
		if j != i {
			rows.Done, rows.Failed = rows.Done+f.Rows.Done, rows.Failed+f.Rows.Failed
		}
	}
	return true
}

// add adds a process. It adds the process's rows if counted is true; the rows of workers are counted by their submitter.
func (st *Status) add(p Process, counted bool) {
	st.Processes = append(st.Processes, p)
	st.Stuck = append(st.Stuck, stuck(p, st.At)...)
	if !counted {
		return
	}
	r, of := &st.Rows, p.Rows
	settled, total := Settled(p.Facts)
	r.Total, r.Done, r.Failed = r.Total+total, r.Done+of.Done, r.Failed+of.Failed
	r.Skipped, r.Shared, r.Bad = r.Skipped+of.Skipped, r.Shared+of.Shared, r.Bad+of.Bad
	if settled < total && (p.Life == runfiles.Alive || p.Life == runfiles.Silent) {
		st.ETA = max(st.ETA, p.ETA)
	}
}

// state returns the state of the job: the most serious state of its processes.
func (st *Status) state() string {
	state := "done"
	rank := map[string]int{"done": 0, "stopped": 1, "running": 1, "cancelled": 2, "failed": 3, "silent": 4, "dead": 5}
	for _, p := range st.Processes {
		now := "running"
		switch {
		case p.Life == runfiles.Dead || p.Life == runfiles.Silent:
			now = string(p.Life)
		case p.Life == runfiles.Ended:
			now = endState(p.Facts)
		}
		if rank[now] > rank[state] {
			state = now
		}
	}
	if len(st.Processes) == 0 {
		return "running"
	}
	return state
}

// endState returns how a process ended. A process that is done with unsettled rows was stopped.
func endState(f runfiles.Facts) string {
	if f.State == runfiles.Cancelling { // the process ended before it could write its final state
		return string(runfiles.Cancelled)
	}
	if n, of := Settled(f); f.State == runfiles.Done && n < of {
		return string(runfiles.Stopped)
	}
	return string(f.State)
}

// Over reports whether all processes of the job have ended.
func (st *Status) Over() bool {
	return !slices.ContainsFunc(st.Processes, func(p Process) bool { return p.Life == runfiles.Alive || p.Life == runfiles.Silent })
}

// patience is the minimal time without progress after which a batch or a device counts as stuck or idle.
const patience = time.Minute

// stuck returns what is stuck in a process. A sampling step may take ten times as long as the average step before it, and a batch
// without steps five times as long as the average batch of its stage.
func stuck(p Process, now time.Time) (all []Stuck) {
	add := func(since time.Time, format string, args ...any) {
		all = append(all, Stuck{p.Process, fmt.Sprintf(format, args...), since})
	}
	switch p.Life {
	case runfiles.Ended:
		return nil
	case runfiles.Dead:
		add(p.At, "the process died without reporting its end (pid %d on %s)", p.PID, p.Host)
		return all
	case runfiles.Silent:
		add(p.At, "the process holds its lock but says nothing (pid %d on %s): it is paused, or cannot write", p.PID, p.Host)
		return all
	}
	idle := 0
	for _, d := range p.Devices {
		if d.Stage == "" && p.At.Sub(d.Since) > patience {
			idle++
		}
	}
	for _, b := range p.Batches {
		still := p.At.Sub(b.Since)
		switch {
		case still <= patience:
		case b.Device == "" && idle > 0:
			add(b.Since, "%s waits although %d devices are idle", work(b), idle)
		case b.Device == "":
		case b.Step > 0 && still > 10*b.Since.Sub(b.Begun)/time.Duration(b.Step), b.Step == 0 && still > 5*usual(p, b.Stage):
			add(b.Since, "%s on %s (rows %s)", work(b), b.Device, strings.Join(b.Rows, ", "))
		}
	}
	return all
}

// usual returns the average duration of a stage's batches; an hour if none has ended.
func usual(p Process, stage string) time.Duration {
	for _, s := range p.Stages {
		if s.Stage == stage && s.Batches > 0 {
			return time.Duration(s.Busy / float64(s.Batches) * float64(time.Second))
		}
	}
	return time.Hour
}

// Print prints the status for people.
func (st *Status) Print(w io.Writer) {
	now := st.At
	fmt.Fprintf(w, "%s: job %s", st.Output, st.State)
	if r := st.Job; r.Runner != "" {
		fmt.Fprintf(w, ", %s, runner %s, started %s", r.ID, r.Runner, r.Started.Format("2006-01-02 15:04:05 UTC"))
	}
	if st.Job.Engine != "" {
		fmt.Fprintf(w, ", job %s of %s", st.Job.Engine, st.Job.Endpoint)
	}
	fmt.Fprintln(w)
	if st.Stop != nil && !st.Over() {
		fmt.Fprintf(w, "asked to end (%s) %s ago\n", st.Stop.How, since(now, st.Stop.At))
	}
	all := runfiles.Facts{At: now, Rows: st.Rows, ETA: st.ETA}
	for _, p := range st.Processes {
		if p.Away {
			all.Away, all.Workers, all.Started = true, len(st.Processes)-1, p.Started
		}
	}
	if n, of := Settled(all); of > 0 || len(st.Processes) > 0 {
		fmt.Fprintf(w, "%d/%d rows, %d %%", n, of, Percent(all))
		if n < of && !st.Over() {
			fmt.Fprintf(w, ", %s", left(all))
		}
		fmt.Fprintf(w, "; %d done before, %d failed now\n", st.Rows.Skipped, st.Rows.Failed+st.Rows.Bad)
	}
	for _, p := range st.Processes {
		st.process(w, p)
	}
	if st.Job.Shards > len(st.Processes) && len(st.Processes) > 0 {
		fmt.Fprintf(w, "%d of %d shards have reported\n", len(st.Processes), st.Job.Shards)
	}
	for _, s := range st.Stuck {
		fmt.Fprintf(w, "stuck: %s: %s, since %s (%s)\n", s.Process, s.What, s.Since.Format("15:04:05 UTC"), since(now, s.Since))
	}
}

// process prints what a process does.
func (st *Status) process(w io.Writer, p Process) {
	state := string(p.State)
	switch p.Life {
	case runfiles.Dead, runfiles.Silent:
		state = string(p.Life)
	case runfiles.Ended:
		state = endState(p.Facts)
	}
	fmt.Fprintf(w, "\n%s: %s, last report %s ago (pid %d on %s)\n", p.Process, state, since(st.At, p.At), p.PID, p.Host)
	if p.Error != "" {
		fmt.Fprintf(w, "  %s\n", strings.ReplaceAll(p.Error, "\n", "\n  "))
	}
	if len(st.Processes) > 1 {
		fmt.Fprintf(w, "  %s\n", Line(p.Facts))
	}
	if p.Life == runfiles.Ended {
		if p.Rows.Failed+p.Rows.Bad > 0 {
			fmt.Fprintf(w, "  %s\n", failures(p.Facts))
		}
		return
	}
	for _, line := range Lines(p.Facts, p.At) {
		fmt.Fprintf(w, "  %s\n", line)
	}
}
