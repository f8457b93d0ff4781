package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"latentbeam/internal/config"
	"latentbeam/internal/watch/progress"
	"latentbeam/pipelines"
	"latentbeam/pipelines/jobfile"
	"latentbeam/pipelines/output"
	"latentbeam/schemas/fault"
)

// openJob opens the job, which may take long for large models. A signal makes it return at once, because nothing has been
// written yet.
func openJob(signals <-chan os.Signal, out io.Writer, cfg *config.Config, o pipelines.Options) (*pipelines.Job, error) {
	if err := cfg.ResolveOutput(time.Now(), os.Getenv, o.Shards); err != nil {
		return nil, err
	}
	type opened struct {
		job *pipelines.Job
		err error
	}
	defer notifyWhileWaiting(out, func() string { return "opening the job: its model, programs and devices ..." })()
	result := make(chan opened, 1)
	go func() {
		job, err := pipelines.Open(cfg, o)
		if fault.ExitCode(err) == fault.ExitFatal { // errors without a class are mistakes of the job
			err = fault.Usage(err)
		}
		result <- opened{job, err}
	}()
	select {
	case r := <-result:
		return r.job, r.err
	case s := <-signals:
		return nil, interrupted(fmt.Sprintf("%v before the job had begun", s))
	}
}

// peek opens a job and reads its output without changing it. done closes the job.
func peek(cmd *cobra.Command, start jobfile.Start, o pipelines.Options, sets ...string) (job *pipelines.Job, done func(), err error) {
	cfg, err := start.Config(sets...)
	if err != nil {
		return nil, nil, err
	}
	o.Version, o.Start = release, start
	signals, stopSignals := catchSignals()
	if job, err = openJob(signals, cmd.ErrOrStderr(), cfg, o); err != nil {
		stopSignals()
		return nil, nil, err
	}
	cancel := cancelOnSignal(cmd, signals)
	stopNotices := notifyWhileWaiting(cmd.ErrOrStderr(), func() string { return planProgress(job) })
	done = func() {
		stopNotices()
		cancel()
		job.Close()
		stopSignals()
	}
	if err := job.Peek(cmd.Context()); err != nil {
		done()
		return nil, nil, err
	}
	return job, done, nil
}

// awaitOutput waits until no run works on the output of a job. A signal ends the wait.
func awaitOutput(cmd *cobra.Command, signals <-chan os.Signal, cfg *config.Config, o pipelines.Options) error {
	if err := cfg.ResolveOutput(time.Now(), os.Getenv, o.Shards); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- output.Await(ctx, cfg.Output.Path, output.Part(o.Shard, o.Shards), func(who error) {
			fmt.Fprintf(cmd.ErrOrStderr(), "latentbeam: waiting: %v\n", who)
		})
	}()
	select {
	case err := <-done:
		return err
	case s := <-signals:
		return interrupted(fmt.Sprintf("%v before the job had begun", s))
	}
}

// planProgress describes how many rows the planning has read.
func planProgress(job *pipelines.Job) string {
	if n := job.RowsRead(); n > 0 {
		return fmt.Sprintf("planning: %s of the input read and compared with the output so far ...", progress.Rows(n))
	}
	return "planning: reading the output and the input ..."
}
