package cli

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"latentbeam/internal/cli/terminal"
	"latentbeam/internal/config"
	"latentbeam/pipelines"
	"latentbeam/schemas/fault"
)

// openJob opens the job, which may take long for large models. A signal ends it at once: nothing has been
// written yet.
func openJob(signals <-chan os.Signal, cfg *config.Config, o pipelines.Options) (*pipelines.Job, error) {
	if err := cfg.ResolveOutput(time.Now(), os.Getenv, o.Shards); err != nil {
		return nil, err
	}
	type opened struct {
		job *pipelines.Job
		err error
	}
	result := make(chan opened, 1)
	go func() {
		job, err := pipelines.Open(cfg, o)
		if fault.ExitCode(err) == fault.ExitFatal { // nobody said what else it is
			err = fault.Usage(err)
		}
		result <- opened{job, err}
	}()
	select {
	case r := <-result:
		return r.job, r.err
	case s := <-signals:
		return nil, terminal.Interrupted(fmt.Sprintf("%v before the job had begun", s))
	}
}

// awaitOutput waits until nobody is at work on the output of a job. A signal ends it.
func awaitOutput(cmd *cobra.Command, signals <-chan os.Signal, cfg *config.Config, o pipelines.Options) error {
	if err := cfg.ResolveOutput(time.Now(), os.Getenv, o.Shards); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- pipelines.Await(ctx, cfg, o, func(who error) {
			fmt.Fprintf(cmd.ErrOrStderr(), "latentbeam: waiting: %v\n", who)
		})
	}()
	select {
	case err := <-done:
		return err
	case s := <-signals:
		return terminal.Interrupted(fmt.Sprintf("%v before the job had begun", s))
	}
}
