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

// TestDeadlineOfTheDrain: the deadline runs while the job is being told, which may have to wait for a lock.
func TestDeadlineOfTheDrain(t *testing.T) {
	signals, never := make(chan os.Signal, 1), make(chan struct{})
	defer close(never)
	planned := make(chan struct{})
	close(planned)
	ctx, finish := drainOnSignal(t.Context(), draining{signals: signals, say: io.Discard, planned: planned, stop: func() { <-never },
		timeout: time.Millisecond})
	defer finish()
	signals <- syscall.SIGTERM
	select {
	case <-ctx.Done():
	case <-time.After(time.Minute):
		t.Fatal("the deadline did not end the job")
	}
	if why := context.Cause(ctx); why != errDeadline || fault.ExitCode(why) != fault.ExitInterrupted {
		t.Errorf("exit %d: %v", fault.ExitCode(why), why)
	}
}

// TestSignalWhilePlanning: before rows begin nothing is in flight, so the first signal ends the run.
func TestSignalWhilePlanning(t *testing.T) {
	signals := make(chan os.Signal, 1)
	ctx, finish := drainOnSignal(t.Context(), draining{signals: signals, say: io.Discard, planned: make(chan struct{}),
		stop: func() { t.Error("it is told to finish") }, timeout: time.Hour})
	defer finish()
	signals <- syscall.SIGINT
	select {
	case <-ctx.Done():
	case <-time.After(time.Minute):
		t.Fatal("the plan goes on")
	}
	if why := context.Cause(ctx); why != errPlanning || fault.ExitCode(why) != fault.ExitInterrupted {
		t.Errorf("exit %d: %v", fault.ExitCode(why), why)
	}
}
