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
	ctx, finish := drainOnSignal(t.Context(), signals, io.Discard, func() { <-never }, time.Millisecond)
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
