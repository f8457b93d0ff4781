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
	errTwice    = interrupted("interrupted twice: what was in flight was given up; run it again to go on")
	errPlanning = interrupted("interrupted before anything was computed; run it again to begin")
)

// draining is a job that a signal stops.
type draining struct {
	signals <-chan os.Signal
	say     io.Writer       // lines for people
	planned <-chan struct{} // closed when rows begin: before, nothing is in flight
	stop    func()          // makes the job finish what is in flight. It may wait for one of the job's locks
	timeout time.Duration   // for what is in flight
}

// drainOnSignal makes a signal stop the job: the first lets it finish what is in flight, within the timeout; a second, the end of
// the timeout, or any signal before the rows begin, cancels the returned context. A job that does not end then is in the middle
// of a step, and the process ends without it: that does no harm, see D9.
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
			fmt.Fprintln(d.say, "latentbeam:", why)
			os.Exit(fault.ExitInterrupted)
		}
	}()
	return ctx, func() {
		close(finished)
		cancel(nil)
	}
}

// wait returns why the job has to end at once; ended says that it has ended before.
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
	fmt.Fprintf(d.say, "%v: finishing what is in flight (at most %v; again to stop at once)\n", s, d.timeout)
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

// cancelOnSignal makes the first signal cancel the context of a command that only looks; a second ends the process.
func cancelOnSignal(cmd *cobra.Command, signals chan os.Signal) (done func()) {
	ctx, done := untilSignal(cmd.Context(), signals, func(s os.Signal) error {
		signal.Stop(signals)
		return interrupted(fmt.Sprintf("%v: nothing was computed or written", s))
	})
	cmd.SetContext(ctx)
	return done
}

// untilSignal returns a context that the first signal cancels, with the cause that why gives.
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

// whyCanceled returns why ctx has ended where err says no more than that it has.
func whyCanceled(ctx context.Context, err error) error {
	var said interrupted
	if errors.Is(err, context.Canceled) && !errors.As(err, &said) && errors.As(context.Cause(ctx), &said) {
		return said
	}
	return err
}

// sayAfter is the time after which people are told what they wait for, and sayAgain the time between two such lines.
const (
	sayAfter = 2 * time.Second
	sayAgain = 10 * time.Second
)

// whileWaiting prints what the program does, should it take longer, until done.
func whileWaiting(w io.Writer, what func() string) (done func()) {
	over := make(chan struct{})
	go func() {
		for pause := sayAfter; ; pause = sayAgain {
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
