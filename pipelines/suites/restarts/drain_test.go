package restarts

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/results/report"
	"latentbeam/internal/storage/store/dir"
	"latentbeam/internal/watch/runfiles"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// gate is a stage that signals when it gets element number n, and then waits until it may go on.
type gate struct {
	n       int
	reached chan bool
	open    chan bool
}

func newGate(n int) *gate { return &gate{n: n, reached: make(chan bool, 1), open: make(chan bool)} }

func (g *gate) spec() stages.Spec {
	return jobtest.Passive("gate", func(ctx context.Context, batch []*stages.Element) error {
		if g.n -= len(batch); g.n == 0 { // there is one worker, so there are no concurrent calls
			g.reached <- true
			select {
			case <-g.open:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	})
}

// drainJob returns a job that is in the middle of its 12 rows when its gate signals.
func drainJob(t *testing.T, g *gate) jobtest.Job {
	j := jobtest.NewJob(t, strings.ReplaceAll(jobtest.ManyRows(12), "poison", "fine"))
	j.Specs, j.Stages = jobtest.Specs(g.spec()), "[encode_text, denoise, gate, decode_vae, encode_video]"
	j.Sets = []string{"resources.batch_size=1"}
	return j
}

// TestStopFinishesWhatIsInFlight: after Stop, no batch is started, rows after the sampler are published, the
// tables contain the published rows, and the next run computes the rest.
func TestStopFinishesWhatIsInFlight(t *testing.T) {
	for _, runner := range jobtest.InProcess(t) {
		t.Run(runner.Name, func(t *testing.T) {
			g := newGate(6)
			j := drainJob(t, g)
			j.Sets = append(j.Sets, "runner="+runner.Name)
			opened, err := j.Open()
			if err != nil {
				t.Fatal(err)
			}
			defer opened.Close()
			go func() {
				<-g.reached
				opened.Stop()
				close(g.open)
			}()
			r, err := opened.Run(t.Context(), nil)
			if err != nil || !r.Interrupted {
				t.Fatalf("the run was interrupted: %v, error %v", r.Interrupted, err)
			}
			if r.Totals.Done < 6 || r.Totals.Done > 10 || r.Totals.Pending != 12-r.Totals.Done {
				t.Errorf("totals %+v: six rows were past the sampler; one more may wait at the gate, and three in "+
					"the stage before it", r.Totals)
			}
			if state := opened.Record.Facts().State; state != runfiles.Stopped {
				t.Errorf("the state of the run is %s, want stopped", state)
			}
			opened.Close()
			checkInterrupted(t, j, r.Totals)
		})
	}
}

// TestCancelEndsAtOnce: when the context is canceled, the run does not wait for batches. Published rows count.
func TestCancelEndsAtOnce(t *testing.T) {
	g := newGate(6)
	j := drainJob(t, g)
	opened, err := j.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := fmt.Errorf("enough: %w", context.Canceled)
	go func() {
		<-g.reached
		cancel(cause)
	}()
	began := time.Now()
	_, err = opened.Run(ctx, nil)
	if !errors.Is(err, context.Canceled) || fault.ExitCode(err) != fault.ExitInterrupted {
		t.Errorf("got exit code %d, %v", fault.ExitCode(err), err)
	}
	if err != nil && err.Error() != cause.Error() { // the runner adds no text
		t.Errorf("got error %q, want only the cause", err)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("the run ended after %v", took)
	}
	opened.Close()
	if j.MustRun(t).Totals.Pending != 0 {
		t.Error("rows are pending after the next run")
	}
	j.SameAs(t, j.Elsewhere(t))
}

// checkInterrupted checks the output of a stopped run, and resumes it.
func checkInterrupted(t *testing.T, j jobtest.Job, totals report.Totals) {
	t.Helper()
	out := jobtest.MustRead(t, j.Out)
	if n := int64(len(out.Rows["videos"])); n != totals.Done {
		t.Errorf("the table has %d videos, but %d are done", n, totals.Done)
	}
	for name := range out.Files {
		if jobtest.IsTemporary(name) {
			t.Errorf("%s is left", name)
		}
	}
	dir, err := dir.Open(j.Out)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	s, err := report.ReadSummary(t.Context(), dir, "summary.json")
	if err != nil || s.State == report.Complete || s.Totals.Pending != totals.Pending {
		t.Errorf("the summary has state %q with %d pending rows, %v", s.State, s.Totals.Pending, err)
	}
	j.Computes(t, totals.Pending)
	j.SameAs(t, j.Elsewhere(t))
}
