package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"latentbeam/schemas/fault"
)

// stopGrace is how long a canceled job may take to return. It returns after the step that it is in the middle of.
const stopGrace = 5 * time.Second

// catchSignals delivers SIGINT and SIGTERM to signals until stopSignals is called.
func catchSignals() (signals chan os.Signal, stopSignals func()) {
	signals = make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	return signals, func() { signal.Stop(signals) }
}

// interrupted is an error for which errors.Is(err, context.Canceled) holds, so the exit code is 130. The value is the message.
type interrupted string

// Error returns the text.
func (e interrupted) Error() string { return string(e) }

// Is reports whether target is context.Canceled.
func (e interrupted) Is(target error) bool { return target == context.Canceled }

// Reasons to end a job at once. The next run continues with the rows that were published.
const (
	errDeadline = interrupted("interrupted: what was in flight did not finish within drain_timeout; " +
		"run it again to go on")
	errTwice    = interrupted("interrupted twice: what was in flight was given up; run it again to go on")
	errPlanning = interrupted("interrupted before anything was computed; run it again to begin")
)

// draining describes how a signal stops a job.
type draining struct {
	signals <-chan os.Signal
	out     io.Writer       // lines for people
	planned <-chan struct{} // closed when the first row starts; before, nothing is in flight
	stop    func()          // makes the job finish the rows in flight; may block on a lock of the job
	timeout time.Duration   // for the rows in flight
}

// drainOnSignal makes signals stop the job. The first signal lets the job finish the rows in flight within the timeout. A second
// signal, the end of the timeout, or any signal before the first row starts cancels the returned context. If the job does not
// return within stopGrace, it is in the middle of a step, and the process exits. That is safe, because an output is consistent
// whenever a process dies.
func drainOnSignal(ctx context.Context, d draining) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	finished := make(chan struct{})
	go func() {
		ended, why := d.wait(finished)
		if ended {
			return
		}
		cancel(why)
		select {
		case <-finished:
		case <-time.After(stopGrace):
			fmt.Fprintln(d.out, "latentbeam:", why)
			os.Exit(fault.ExitInterrupted)
		}
	}()
	return ctx, func() {
		close(finished)
		cancel(nil)
	}
}

// wait waits for signals and returns why the job must end at once. ended is true if the job ended by itself.
func (d draining) wait(finished <-chan struct{}) (ended bool, why error) {
	var s os.Signal
	select {
	case s = <-d.signals:
	case <-finished:
		return true, nil
	}
	select {
	case <-d.planned:
	default:
		return false, errPlanning
	}
	fmt.Fprintf(d.out, "%v: finishing what is in flight (at most %v; again to stop at once)\n", s, d.timeout)
	go d.stop()
	select {
	case <-d.signals:
		return false, errTwice
	case <-time.After(d.timeout):
		return false, errDeadline
	case <-finished:
		return true, nil
	}
}

// cancelOnSignal makes the first signal cancel the context of a command that only reads; a second signal ends the process.
func cancelOnSignal(cmd *cobra.Command, signals chan os.Signal) (done func()) {
	ctx, done := untilSignal(cmd.Context(), signals, func(s os.Signal) error {
		signal.Stop(signals)
		return interrupted(fmt.Sprintf("%v: nothing was computed or written", s))
	})
	cmd.SetContext(ctx)
	return done
}

// untilSignal returns a context that the first signal cancels. why returns the cause.
func untilSignal(ctx context.Context, signals <-chan os.Signal, why func(os.Signal) error) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case s := <-signals:
			cancel(why(s))
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// whyCanceled returns the cause of ctx if err is a plain context.Canceled; else it returns err.
func whyCanceled(ctx context.Context, err error) error {
	var reason interrupted
	if errors.Is(err, context.Canceled) && !errors.As(err, &reason) && errors.As(context.Cause(ctx), &reason) {
		return reason
	}
	return err
}

// noticeDelay is the delay before notifyWhileWaiting prints its first line, and noticeInterval the time between two lines.
const (
	noticeDelay    = 2 * time.Second
	noticeInterval = 10 * time.Second
)

// notifyWhileWaiting prints what() now and then until done is called. It prints nothing if done is called within noticeDelay.
func notifyWhileWaiting(w io.Writer, what func() string) (done func()) {
	over := make(chan struct{})
	go func() {
		for pause := noticeDelay; ; pause = noticeInterval {
			select {
			case <-time.After(pause):
				fmt.Fprintln(w, what())
			case <-over:
				return
			}
		}
	}()
	return sync.OnceFunc(func() { close(over) })
}
