package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"latentbeam/internal/fault"
	"latentbeam/pipelines"
	"latentbeam/stages/catalog"
)

// runFlags are the flags of `latentbeam run`.
type runFlags struct {
	sets   []string
	limit  int
	output string
	shard  string
	dryRun bool
}

func runCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run FILE.yaml",
		Short: "Run a job; run it again and only what is missing or changed is done",
		Long: "Run a job; run it again and only what is missing or changed is done.\n\n" +
			"Exit codes: 0 done; 1 done, failed rows remain; 2 wrong command line, configuration or input;\n" +
			"3 stopped at run time; 75 try again later; 130 interrupted.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.output != "" {
				f.sets = append(f.sets, "output.path="+strconv.Quote(f.output))
			}
			start, err := pipelines.ReadStart(args[0], f.sets)
			if err != nil {
				return fault.Usage(err)
			}
			return runJob(cmd, start, f, false)
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.sets, "set", nil, "override a key of the YAML, such as defaults.seed=7 (repeatable)")
	flags.StringVar(&f.output, "output", "", "output directory, instead of output.path")
	addRunFlags(cmd, &f)
	flags.BoolVar(&f.dryRun, "dry-run", false, "print what would be done, and do nothing")
	return cmd
}

// addRunFlags adds the flags that run and retry share.
func addRunFlags(cmd *cobra.Command, f *runFlags) {
	cmd.Flags().IntVar(&f.limit, "limit", 0, "only the first N rows of the input")
	cmd.Flags().StringVar(&f.shard, "shard", "", "i/n: only share i of n, counted from 0 "+
		"(default from JOB_COMPLETION_INDEX or SLURM_ARRAY_TASK_ID with their counts)")
}

func retryCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "retry DIR",
		Short: "Run the job of an output again, failed rows included",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			start, err := pipelines.LastStart(args[0])
			if err != nil {
				return fault.Usage(err)
			}
			output, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			if err := os.Chdir(start.Dir); err != nil {
				return fault.Usage(fmt.Errorf("retry: the job was started in another directory: %w", err))
			}
			start.Sets = append(start.Sets, "output.path="+strconv.Quote(output))
			return runJob(cmd, start, f, true)
		},
	}
	addRunFlags(cmd, &f)
	return cmd
}

// runJob opens and runs a job.
func runJob(cmd *cobra.Command, start pipelines.Start, f runFlags, retry bool) error {
	cfg, err := start.Config()
	if err != nil {
		return err
	}
	shard, shards, err := shardOf(f.shard, os.Getenv)
	if err != nil {
		return fault.Usage(err)
	}
	if f.limit < 0 {
		return fault.Usage(fmt.Errorf("--limit is %d: give 1 or more rows", f.limit))
	}
	job, err := pipelines.Open(cfg, pipelines.Options{
		Specs: catalog.All(), Version: release, Limit: f.limit, Shard: shard, Shards: shards,
		Retry: retry, Start: start,
	})
	if err != nil {
		return fault.Usage(err)
	}
	defer job.Close()
	if f.dryRun {
		return dryRun(cmd, job)
	}
	if err := job.Attach(cmd.Context()); err != nil {
		return err
	}
	ctx, stop := drainOnSignal(cmd.Context(), cmd.ErrOrStderr(), job, time.Duration(cfg.DrainTimeout))
	defer stop()
	show := newProgress(cmd.ErrOrStderr(), job.Progress())
	result, err := job.Run(ctx, show.start)
	show.stop()
	if err == nil || result.Totals.Rows > 0 {
		printResult(cmd.OutOrStdout(), cfg.Output.Path, result)
	}
	switch {
	case err != nil:
		return err
	case result.Interrupted && result.Totals.Pending > 0:
		return fmt.Errorf("interrupted with %d rows to do; run it again to go on: %w", result.Totals.Pending, context.Canceled)
	case result.Totals.Failed > 0:
		return fault.Failures(fmt.Errorf("%d of %d rows failed: see %s; `latentbeam retry %s` tries them again",
			result.Totals.Failed, result.Totals.Rows,
			filepath.Join(cfg.Output.Path, "tables", "failures-*.parquet"), cfg.Output.Path))
	}
	return nil
}

// shardOf reads i/n, or finds the shard in the environment of a Kubernetes indexed Job or a Slurm array.
// Kubernetes does not say how many there are: the job's spec has to, in JOB_COMPLETIONS.
func shardOf(flag string, getenv func(string) string) (shard, shards int, err error) {
	switch {
	case flag != "":
		return parseShard(flag)
	case getenv("JOB_COMPLETION_INDEX") != "":
		n := getenv("JOB_COMPLETIONS")
		if n == "" {
			return 0, 0, errors.New("JOB_COMPLETION_INDEX is set, but not how many shards there are: " +
				"set JOB_COMPLETIONS to the Job's spec.completions, or give --shard i/n (0/1 for all rows)")
		}
		return parseShard(getenv("JOB_COMPLETION_INDEX") + "/" + n)
	case getenv("SLURM_ARRAY_TASK_ID") != "":
		return slurmShard(getenv)
	}
	return 0, 1, nil
}

func parseShard(text string) (shard, shards int, err error) {
	i, n, ok := strings.Cut(text, "/")
	if ok {
		if shard, err = strconv.Atoi(i); err == nil {
			shards, err = strconv.Atoi(n)
		}
	}
	if !ok || err != nil || shards < 1 || shard < 0 || shard >= shards {
		return 0, 0, fmt.Errorf("shard %q: give i/n with i from 0 to n-1, such as 0/4", text)
	}
	return shard, shards, nil
}

// slurmShard counts the task of an array from its first index on, in its step (--array=5-20:5).
func slurmShard(getenv func(string) string) (shard, shards int, err error) {
	read := func(name string, missing int) int {
		text := getenv("SLURM_ARRAY_TASK_" + name)
		if text == "" {
			return missing
		}
		v, atoiErr := strconv.Atoi(text)
		if atoiErr != nil && err == nil {
			err = fmt.Errorf("SLURM_ARRAY_TASK_%s is %q, not a number", name, text)
		}
		return v
	}
	id, first, step, count := read("ID", 0), read("MIN", 0), read("STEP", 1), read("COUNT", 0)
	if err != nil {
		return 0, 0, err
	}
	if count < 1 || step < 1 || (id-first)%step != 0 || id < first || (id-first)/step >= count {
		return 0, 0, fmt.Errorf("the Slurm array (id %d from %d by %d, %d tasks) has gaps or no count: give --shard i/n",
			id, first, step, count)
	}
	return (id - first) / step, count, nil
}

// errDeadline is why a drain that takes too long ends.
var errDeadline = errors.New("interrupted: what was in flight did not finish in time")

// drainOnSignal makes SIGINT and SIGTERM stop the job: the first lets it finish what is in flight, within
// the timeout; a second, or the end of the timeout, cancels the returned context.
func drainOnSignal(ctx context.Context, w io.Writer, job *pipelines.Job, timeout time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	finished := make(chan struct{})
	go func() {
		select {
		case s := <-signals:
			fmt.Fprintf(w, "\n%v: finishing what is in flight (at most %v; again to stop at once)\n", s, timeout)
			job.Stop()
		case <-finished:
			return
		}
		select {
		case <-signals:
		case <-time.After(timeout):
		case <-finished:
			return
		}
		cancel(fmt.Errorf("%w: %w", errDeadline, context.Canceled))
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(finished)
		cancel(nil)
	}
}
