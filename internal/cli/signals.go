package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"latentbeam/schemas/fault"
)

// stopGrace is how long a job that was told to stop at once may take to do so, in the middle of a step.
const stopGrace = 5 * time.Second

// catchSignals collects SIGINT and SIGTERM from now on, until ignore.
func catchSignals() (signals chan os.Signal, ignore func()) {
	signals = make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	return signals, func() { signal.Stop(signals) }
}

// interrupted is an error that is context.Canceled (exit 130), which its text need not say.
type interrupted string

// Error returns the text.
func (e interrupted) Error() string { return string(e) }

// Is reports whether target is context.Canceled.
func (e interrupted) Is(target error) bool { return target == context.Canceled }

// Why a job is ended at once; run again, it goes on with what was published.
const (
	errDeadline = interrupted("interrupted: what was in flight did not finish within drain_timeout; " +
		"run it again to go on")
	errTwice = interrupted("interrupted twice: what was in flight was given up; run it again to go on")
)

// drainOnSignal makes a signal stop the job: the first lets it finish what is in flight, within the
// timeout; a second, or the end of the timeout, cancels the returned context. A job that does not end then
// is in the middle of a step, and the process ends without it: that does no harm, see D9. stop tells the job,
// and may wait for one of its locks.
func drainOnSignal(ctx context.Context, signals <-chan os.Signal, w io.Writer, stop func(),
	timeout time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	finished := make(chan struct{})
	go func() {
		select {
		case s := <-signals:
			fmt.Fprintf(w, "\n%v: finishing what is in flight (at most %v; again to stop at once)\n", s, timeout)
			go stop()
		case <-finished:
			return
		}
		why := errTwice
		select {
		case <-signals:
		case <-time.After(timeout):
			why = errDeadline
		case <-finished:
			return
		}
		cancel(why)
		select {
		case <-finished:
		case <-time.After(stopGrace):
			fmt.Fprintln(w, "latentbeam:", why)
			os.Exit(fault.ExitInterrupted)
		}
	}()
	return ctx, func() {
		close(finished)
		cancel(nil)
	}
}
