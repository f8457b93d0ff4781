package progress

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"latentbeam/internal/storage/store/open"
	"latentbeam/internal/watch/runfiles"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// minute is longer than all intervals of a recorder and a display, under the clock of synctest.
const minute = time.Minute

// example returns the facts of a working process.
func example() runfiles.Facts {
	return runfiles.Facts{Process: "h", Host: "h", PID: 7, At: noon, Started: noon.Add(-2 * time.Minute), Every: 2, State: runfiles.Running,
		Rows: runfiles.Rows{Total: 60, Done: 3, Failed: 1, Bad: 30, Skipped: 5}, First: "t.csv:3: read: no prompt", ETA: 3725,
		Batches: []runfiles.Batch{
			{Stage: "denoise", Count: 4, Rows: []string{"a", "b"}, Shape: "64x64x9, 50 steps", Step: 17, Of: 50, Device: "cpu:0",
				Since: noon.Add(-time.Second), Begun: noon.Add(-17 * time.Second)},
			{Stage: "encode_text", Count: 8, Since: noon, Begun: noon}, {Stage: "encode_text", Count: 8, Since: noon, Begun: noon}},
		Devices: []runfiles.DeviceState{{Name: "cpu:0", Stage: "denoise", Since: noon}, {Name: "cpu:1", Since: noon.Add(-90 * time.Second)}},
		Rates:   []runfiles.Rate{{Shape: "64x64x9, 50 steps", Total: 60, Settled: 4, PerMinute: 2, ETA: 3725}},
		Stages:  []runfiles.StageTotals{{Stage: "encode_text", Rows: 20}, {Stage: "denoise", Rows: 4, Batches: 1, Busy: 20}}}
}

// TestLine: the one line about a run. A batch may have a note, and rows that cannot be read are not progress.
func TestLine(t *testing.T) {
	const want = "4/60 rows, 31 failed, 6 %, 2.0 rows/min, ETA 1h02m; denoise 17/50 of 4 rows on cpu:0"
	if got := Line(example()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	noted := example()
	noted.Batches[0].Note = "its program has sent no hello for 12s"
	if got := Line(noted); got != strings.Replace(want, "4 rows on", "4 rows (its program has sent no hello for 12s) on", 1) {
		t.Errorf("with a note: got %s", got)
	}
	f := runfiles.Facts{Rows: runfiles.Rows{Total: 60, Bad: 30}}
	if got := Line(f); got != "0/60 rows, 30 failed, 0 %, ETA ?" {
		t.Errorf("with rows that cannot be read: got %s", got)
	}
}

// TestLines: the lines below the bar: devices, batches that wait, stages, shapes and failures.
func TestLines(t *testing.T) {
	const want = `cpu:0  denoise 17/50 of 4 rows, 64x64x9, 50 steps, for 17s
cpu:1  idle for 1m30s
waiting: encode_text of 16 rows
rows through encode_text 20, denoise 4
64x64x9, 50 steps: 4/60 rows, 2.0 rows/min, 1h02m left
31 failed (30 cannot be used), the first: t.csv:3: read: no prompt`
	if got := strings.Join(Lines(example(), noon), "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestStuck: a batch is stuck if its step takes more than ten times as long as its earlier ones, if it has no steps and takes more than five
// times as long as other batches of the stage, or if it waits beside an idle device.
func TestStuck(t *testing.T) {
	p := Process{example(), runfiles.Alive}
	if s := stuck(p, noon); len(s) != 0 {
		t.Errorf("no batch is stuck: %v", s)
	}
	// Step 17 ended 10 minutes ago, 17 minutes after the begin of the batch: a step takes a minute.
	p.Batches[0].Since, p.Batches[0].Begun = noon.Add(-10*time.Minute), noon.Add(-27*time.Minute)
	if s := stuck(p, noon); len(s) != 0 {
		t.Errorf("a step of 10 minutes after steps of one: got %v, want not stuck", s)
	}
	p.Batches[0].Since = noon.Add(-11 * time.Minute)
	p.Batches[0].Begun = noon.Add(-28 * time.Minute)
	s := stuck(p, noon)
	if len(s) != 1 || !strings.Contains(s[0].What, "denoise 17/50 of 4 rows on cpu:0 (rows a, b)") ||
		!s[0].Since.Equal(p.Batches[0].Since) {
		t.Errorf("a step of 11 minutes after steps of one: got %v, want stuck in denoise", s)
	}
	p = Process{example(), runfiles.Alive}
	p.Batches[1].Since = noon.Add(-2 * time.Minute)
	if s := stuck(p, noon); len(s) != 1 || !strings.Contains(s[0].What, "although 1 devices are idle") {
		t.Errorf("a batch that waits 2 minutes beside an idle device: got %v, want stuck", s)
	}
	p.Devices[1].Stage = "denoise"
	if s := stuck(p, noon); len(s) != 0 {
		t.Errorf("a batch that waits for devices at work: got %v, want not stuck", s)
	}
	p = Process{example(), runfiles.Alive}
	p.Batches[0].Step, p.Batches[0].Of, p.Batches[0].Since = 0, 0, noon.Add(-99*time.Second)
	if s := stuck(p, noon); len(s) != 0 {
		t.Errorf("99 s, where another batch took 20 s: got %v, want not stuck", s)
	}
	p.Batches[0].Since = noon.Add(-101 * time.Second)
	if s := stuck(p, noon); len(s) != 1 {
		t.Errorf("101 s, where another batch took 20 s: got %v, want stuck", s)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestStatus: the status of a job of 4 shards, of which three have started: one works, one has died and one has ended.
func TestStatus(t *testing.T) {
	ctx := t.Context()
	s, err := open.Output(ctx, filepath.Join(t.TempDir(), "out"))
	must(t, err)
	defer s.Close()
	if _, err := Read(ctx, s, ""); !errors.Is(err, ErrNoJob) {
		t.Errorf("an output without a job: got %v, want ErrNoJob", err)
	}
	job := runfiles.Folder{Store: s, ID: runfiles.ShardsID(4)}
	must(t, job.Write(ctx, runfiles.JobInfo{Runner: "local", Started: noon, Shards: 4}))
	for i, name := range []string{"shard-0", "shard-1", "shard-2"} {
		f := example()
		f.Process, f.At, f.Lock, f.Batches, f.Devices = name, time.Now(), job.LockName(name), nil, nil
		switch i {
		case 1:
			f.At = f.At.Add(-time.Hour)
		case 2:
			f.State, f.Rows = runfiles.Done, runfiles.Rows{Total: 10, Done: 10}
		}
		must(t, job.WriteFacts(ctx, f))
	}
	st, err := Read(ctx, s, "")
	must(t, err)
	if st.State != "dead" || st.Rows.Total != 130 || st.Rows.Done != 16 || st.Over() || len(st.Stuck) != 1 ||
		st.Stuck[0].Process != "shard-1" {
		t.Errorf("got %+v, want a dead job with 16 of 130 rows done and shard-1 stuck", st)
	}
	var out bytes.Buffer
	st.Print(&out)
	for _, want := range []string{"job dead", "18/130 rows, 13 %, ETA 1h02m", "shard-0: running", "shard-1: dead, last report 1h00m ago",
		"shard-2: done", "3 of 4 shards", "stuck: shard-1: the process died without reporting its end (pid 7 on h), since "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, &out)
		}
	}
}

// TestStatusOfACluster: the submitter counts the rows of the job, and its two workers the rows that they settled. The job is done although
// the submitter has settled no row.
func TestStatusOfACluster(t *testing.T) {
	s, err := open.Output(t.Context(), filepath.Join(t.TempDir(), "out"))
	must(t, err)
	defer s.Close()
	job := runfiles.Folder{Store: s, ID: runfiles.NewID(noon)}
	must(t, job.Write(t.Context(), runfiles.JobInfo{Runner: "flink", Started: noon}))
	for name, rows := range map[string]runfiles.Rows{"host": {Total: 3}, "worker-1": {Done: 1}, "worker-2": {Done: 1, Failed: 1}} {
		f := runfiles.Facts{Process: name, At: time.Now(), Lock: job.LockName(name), State: runfiles.Done, Away: name == "host", Rows: rows}
		must(t, job.WriteFacts(t.Context(), f))
	}
	st, err := Read(t.Context(), s, "")
	must(t, err)
	if st.State != "done" || st.Rows != (runfiles.Rows{Total: 3, Done: 2, Failed: 1}) || len(st.Processes) != 3 {
		t.Errorf("the job is %s with %d processes and rows %+v; want done, 3, and 2 done and 1 failed of 3", st.State, len(st.Processes), st.Rows)
	}
}

// TestStopped: a process that ended without an error is stopped if rows are left, else done.
func TestStopped(t *testing.T) {
	f := example()
	if f.State = runfiles.Done; endState(f) != "stopped" {
		t.Errorf("with rows left: got %s, want stopped", endState(f))
	}
	if f.Rows.Done = 59; endState(f) != "done" {
		t.Errorf("with 59 rows done and 1 failed of 60: got %s, want done", endState(f))
	}
	if f.State, f.Rows.Done = runfiles.Failed, 0; endState(f) != "failed" {
		t.Errorf("a failed process: got %s, want failed", endState(f))
	}
}

// TestRecorder: a recorder writes facts until Stop, and reports a stop request that is written after its start, but not an older one. The
// methods of a nil recorder do nothing.
func TestRecorder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		s, err := open.Output(ctx, filepath.Join(t.TempDir(), "out"))
		must(t, err)
		defer s.Close()
		job := runfiles.Folder{Store: s, ID: "job"}
		must(t, job.Stop(ctx, runfiles.Cancel, "an earlier day"))
		stops := make(chan runfiles.Stop, 2)
		r := runfiles.Record(ctx, job, runfiles.JobInfo{Started: noon}, func() runfiles.Facts {
			return runfiles.Facts{Process: "p", At: time.Now(), Rows: runfiles.Rows{Total: 2}}
		}, func(s runfiles.Stop) { stops <- s })
		r.SetState(runfiles.Running)
		time.Sleep(minute) // it has read the old stop file, and written facts again
		if all, err := job.ReadFacts(ctx); err != nil || all[0].State != runfiles.Running {
			t.Fatalf("the facts say %+v, %v", all, err)
		}
		must(t, job.Stop(ctx, runfiles.Drain, "a test"))
		time.Sleep(minute)
		select {
		case got := <-stops:
			if got.How != runfiles.Drain {
				t.Errorf("the run got the old stop request: %+v", got)
			}
		default:
			t.Fatal("the run did not get the stop request")
		}
		st, err := Read(ctx, s, "")
		must(t, err)
		if st.State != "running" || st.Processes[0].State != runfiles.Running || st.Processes[0].Every != 2 {
			t.Errorf("got status %+v, want running", st)
		}
		r.Stop(errors.New("no room"))
		r.Stop(nil) // a second call does nothing
		if st, err = Read(ctx, s, ""); err != nil || st.State != "failed" || st.Processes[0].Error != "no room" || !st.Over() {
			t.Errorf("after Stop: got status %+v, %v; want failed with the error no room", st, err)
		}
		var none *runfiles.Recorder
		none.SetState(runfiles.Running)
		none.Stop(nil)
	})
}

// TestCancelled: a cancelled run writes this state at once. It does not count as dead, even if its process ends before it can write its
// final state.
func TestCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := open.Output(t.Context(), filepath.Join(t.TempDir(), "out"))
		must(t, err)
		defer s.Close()
		for _, ends := range []bool{true, false} { // whether the process can call Stop
			job := runfiles.Folder{Store: s, ID: fmt.Sprint("ends-", ends)}
			ctx, cancel := context.WithCancelCause(t.Context())
			r := runfiles.Record(ctx, job, runfiles.JobInfo{Started: noon}, func() runfiles.Facts {
				f := runfiles.Facts{Process: "p", At: time.Now(), Lock: job.LockName("p"), Rows: runfiles.Rows{Total: 2}}
				if !ends {
					f.At = noon // the last facts are old
				}
				return f
			}, nil)
			r.SetState(runfiles.Running)
			cancel(errors.New("interrupted twice"))
			synctest.Wait()
			if all, err := job.ReadFacts(t.Context()); err != nil || all[0].State != runfiles.Cancelling {
				t.Fatalf("got facts %+v, %v; want the state cancelling", all, err)
			}
			if ends {
				r.Stop(context.Cause(ctx))
			}
			st, err := Read(t.Context(), s, job.ID)
			must(t, err)
			if st.State != "cancelled" || !st.Over() || len(st.Stuck) > 0 {
				t.Errorf("%s: the job is %s, want cancelled: %+v", job.ID, st.State, st.Processes)
			}
			r.Stop(nil)
		}
	})
}

// locked is a writer that two goroutines can use.
type locked struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestDisplayLines: without a terminal, a display prints a line with a time stamp at the start and when the rows have changed.
func TestDisplayLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out locked
		var mu sync.Mutex
		f := example()
		f.Rows.Done, f.Rows.Failed = 0, 0
		d := Show(&out, false, func() runfiles.Facts { mu.Lock(); defer mu.Unlock(); return f }, nil)
		wait := func(n int) {
			t.Helper()
			time.Sleep(10 * time.Second) // the first line comes after 6 seconds, and a line without changes after 30
			if strings.Count(out.String(), "\n") < n {
				t.Fatalf("want %d lines:\n%s", n, out.String())
			}
		}
		wait(1)
		mu.Lock()
		f.Rows.Done = 7
		mu.Unlock()
		wait(2)
		d.Stop()
		d.Stop()
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], "Z 0/60 rows, ") || !strings.Contains(lines[1], "Z 7/60 rows, ") {
			t.Errorf("got %q, want a line with 0/60 rows and one with 7/60", lines)
		}
		if _, err := time.Parse(time.RFC3339, strings.Fields(lines[1])[0]); err != nil {
			t.Error(err)
		}
	})
}

// TestDisplayTerminal: on a terminal, a display shows a bar and lines below it. Other output, such as warnings, goes through a writer that
// prints it above the bar.
func TestDisplayTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out locked
		other := make(chan io.Writer, 2)
		d := Show(&out, true, example, func(w io.Writer) { other <- w })
		above := <-other
		if _, err := above.Write([]byte("latentbeam: warning: x\n")); err != nil {
			t.Error(err)
		}
		time.Sleep(minute)
		if !strings.Contains(out.String(), "denoise 17/50") {
			t.Fatalf("no lines below the bar: %q", out.String())
		}
		d.Stop()
		for _, want := range []string{"4/60 rows", "warning: x", "31 failed"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%q is not in %q", want, out.String())
			}
		}
	})
}
