package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"latentbeam/internal/config"
	"latentbeam/internal/fault"
	"latentbeam/pipelines"
)

// stopGrace is how long a job that was told to stop at once may take to do so, in the middle of a step.
const stopGrace = 5 * time.Second

// catchSignals collects SIGINT and SIGTERM from now on, until ignore.
func catchSignals() (signals chan os.Signal, ignore func()) {
	signals = make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	return signals, func() { signal.Stop(signals) }
}

// openJob opens the job, which may take long for large models. A signal ends it at once: nothing has been
// written yet.
func openJob(signals <-chan os.Signal, cfg *config.Config, o pipelines.Options) (*pipelines.Job, error) {
	type opened struct {
		job *pipelines.Job
		err error
	}
	result := make(chan opened, 1)
	go func() {
		job, err := pipelines.Open(cfg, o)
		result <- opened{job, fault.Usage(err)}
	}()
	select {
	case r := <-result:
		return r.job, r.err
	case s := <-signals:
		return nil, fmt.Errorf("%v before the job had begun: %w", s, context.Canceled)
	}
}

// Why a job is ended at once; run again, it goes on with what was published.
var (
	errDeadline = errors.New("interrupted: what was in flight did not finish within drain_timeout")
	errTwice    = errors.New("interrupted twice: what was in flight was given up")
)

// drainOnSignal makes a signal stop the job: the first lets it finish what is in flight, within the
// timeout; a second, or the end of the timeout, cancels the returned context. A job that does not end then
// is in the middle of a step, and the process ends without it: that does no harm, see D9.
func drainOnSignal(ctx context.Context, signals <-chan os.Signal, w io.Writer, job *pipelines.Job,
	timeout time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	finished := make(chan struct{})
	go func() {
		select {
		case s := <-signals:
			fmt.Fprintf(w, "\n%v: finishing what is in flight (at most %v; again to stop at once)\n", s, timeout)
			job.Stop()
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
		cancel(fmt.Errorf("%w: %w", why, context.Canceled))
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
