package metrics

import (
	"context"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"latentbeam/internal/watch/board"
	"latentbeam/internal/watch/runfiles"
)

// example returns a run with one value of each kind.
func example() Run {
	return Run{Version: "1.0", Facts: func() runfiles.Facts {
		return runfiles.Facts{Process: "h", State: runfiles.Running, Started: time.Unix(100, 0),
			Rows: runfiles.Rows{Total: 60, Done: 3, Failed: 1, Bad: 2},
			ETA:  90, Batches: []runfiles.Batch{{Stage: "denoise", Device: "cpu:0"}, {Stage: "denoise"}, {Stage: "denoise"}},
			Devices: []runfiles.DeviceState{{Name: "cpu:0", Stage: "denoise", Busy: 4.5}}, Rates: []runfiles.Rate{{Shape: "64x64x9", Total: 60}},
			Stages: []runfiles.StageTotals{{Stage: "denoise", Rows: 4, Busy: 4, Beside: []runfiles.HostWork{{Name: "decode", Busy: 2.5}}}}}
	}, Counts: func() board.Counts { return board.Counts{Failures: map[string]int{"row/guard": 1, "row/read": 2}} }}
}

// TestServe: the served metrics have the values of the facts, and names that promtool accepts.
func TestServe(t *testing.T) {
	r := New(example())
	r.Sink().Record(board.Span{Kind: board.Work, Stage: "denoise", Begin: time.Unix(1, 0), End: time.Unix(3, 0)})
	at, stop, err := r.Serve("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	answer, err := http.Get("http://" + at + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`latentbeam_rows_settled_total{result="done"} 3`, `latentbeam_rows_planned{shape="64x64x9"} 60`,
		`latentbeam_failures_total{class="row",stage="read"} 2`, `latentbeam_remaining_seconds 90`, `latentbeam_batches{stage="denoise",state="waiting"} 2`,
		`latentbeam_device_busy_seconds_total{device="cpu:0"} 4.5`, `latentbeam_run_state{state="running"} 1`,
		`latentbeam_stage_host_seconds_total{stage="denoise",work="decode"} 2.5`, `latentbeam_run_start_time_seconds 100`, `latentbeam_batch_duration_seconds_sum{kind="work",stage="denoise"} 2`} {
		if !strings.Contains(string(data), want+"\n") {
			t.Errorf("%q is missing in\n%s", want, data)
		}
	}
	problems, err := promlint.New(strings.NewReader(string(data))).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v, %v", problems, err)
	}
	if _, _, err := r.Serve(at); err == nil {
		t.Error("a second Serve at the same address returned no error")
	}
}

// TestFile: the file for Prometheus' textfile collector is replaced by later values, the last time when the context ends. Its name must end
// in .prom.
func TestFile(t *testing.T) {
	run := example()
	done := int64(3) // rows
	facts := run.Facts
	run.Facts = func() runfiles.Facts { f := facts(); f.Rows.Done = done; return f }
	r := New(run)
	name := filepath.Join(t.TempDir(), "latentbeam.prom")
	if err := r.WriteNow(name); err != nil {
		t.Fatal(err)
	}
	done = 7
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Write(ctx, name); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(name)
	if err != nil || !strings.Contains(string(data), `latentbeam_rows_settled_total{result="done"} 7`) {
		t.Errorf("the file has not the last value, 7 rows done: %v\n%s", err, data)
	}
	if err := CheckFile("metrics.txt"); err == nil {
		t.Error("CheckFile accepts metrics.txt, which the node exporter would not read")
	}
}

// TestRemaining: the metric of the remaining seconds is NaN while nothing is known, and 0 at the end.
func TestRemaining(t *testing.T) {
	if v := remaining(runfiles.Facts{Rows: runfiles.Rows{Total: 3}}); !math.IsNaN(v) {
		t.Errorf("no row is done: got %g, want NaN", v)
	}
	if v := remaining(runfiles.Facts{Rows: runfiles.Rows{Total: 3, Done: 3}}); v != 0 {
		t.Errorf("all rows are done: got %g, want 0", v)
	}
}
