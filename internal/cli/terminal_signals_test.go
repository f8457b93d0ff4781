//go:build unix

package cli

import (
	"context"
	"io"
	"os"
	"syscall"
	"testing"
	"time"

	"latentbeam/schemas/fault"
)

// TestDeadlineOfTheDrain: drain_timeout also passes while Stop of the job waits for a lock.
func TestDeadlineOfTheDrain(t *testing.T) {
	signals, never := make(chan os.Signal, 1), make(chan struct{})
	defer close(never)
	planned := make(chan struct{})
	close(planned)
	ctx, finish := drainOnSignal(t.Context(), draining{signals: signals, out: io.Discard, planned: planned, stop: func() { <-never },
		timeout: time.Millisecond})
	defer finish()
	signals <- syscall.SIGTERM
	select {
	case <-ctx.Done():
	case <-time.After(time.Minute):
		t.Fatal("the deadline did not end the job")
	}
	if why := context.Cause(ctx); why != errDeadline || fault.ExitCode(why) != fault.ExitInterrupted {
		t.Errorf("got exit code %d: %v", fault.ExitCode(why), why)
	}
}

// TestSignalWhilePlanning: before the first row starts, nothing is in flight, so the first signal ends the run.
func TestSignalWhilePlanning(t *testing.T) {
	signals := make(chan os.Signal, 1)
	ctx, finish := drainOnSignal(t.Context(), draining{signals: signals, out: io.Discard, planned: make(chan struct{}),
		stop: func() { t.Error("stop was called") }, timeout: time.Hour})
	defer finish()
	signals <- syscall.SIGINT
	select {
	case <-ctx.Done():
	case <-time.After(time.Minute):
		t.Fatal("the plan did not stop")
	}
	if why := context.Cause(ctx); why != errPlanning || fault.ExitCode(why) != fault.ExitInterrupted {
		t.Errorf("got exit code %d: %v", fault.ExitCode(why), why)
	}
}
