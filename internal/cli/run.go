package cli

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"latentbeam/internal/config"
	"latentbeam/internal/storage/store"
	"latentbeam/pipelines"
	"latentbeam/pipelines/jobfile"
	"latentbeam/pipelines/planning"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// runFlags are the flags of `latentbeam run`.
type runFlags struct {
	sets         []string
	limit        int
	output       string
	shard        string
	dryRun       bool
	json         bool
	allowEmpty   bool
	cancelOthers bool
	newClass     bool
	newMeaning   bool
	allFailures  bool // print every failure
	wait         bool
	watch        watchFlags
	profile      bool
}

func runCommand(specs []stages.Spec) *cobra.Command {
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
			start, err := jobfile.Read(args[0], f.sets)
			if err != nil {
				return fault.Usage(err)
			}
			start.Limit = f.limit
			share, err := shardOf(f.shard, os.Getenv)
			if err != nil {
				return fault.Usage(err)
			}
			return runJob(cmd, start, jobRun{runFlags: f, shard: share, hooks: true, specs: specs})
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.sets, "set", nil, "override a key of the YAML, such as defaults.seed=7 (repeatable)")
	flags.StringVar(&f.output, "output", "", "output directory, instead of output.path")
	addRunFlags(cmd, &f)
	flags.BoolVar(&f.json, "json", false, "print JSON on stdout instead of text, one object a line (docs/json.md)")
	flags.BoolVar(&f.dryRun, "dry-run", false, "print what would be done, and do nothing")
	return cmd
}

// addRunFlags adds the flags that run and retry share.
func addRunFlags(cmd *cobra.Command, f *runFlags) {
	cmd.Flags().IntVar(&f.limit, "limit", 0, "only the first N rows of the input; 0: all")
	cmd.Flags().StringVar(&f.shard, "shard", "", "i/n: only share i of n, counted from 0 "+
		"(default from JOB_COMPLETION_INDEX or SLURM_ARRAY_TASK_ID with their counts)")
	cmd.Flags().BoolVar(&f.cancelOthers, "cancel", false, "end a job of an earlier run that a cluster still works on, instead of following it")
	cmd.Flags().BoolVar(&f.wait, "wait", false, "wait for another run that is at work on the output, instead of ending with 75")
	cmd.Flags().BoolVar(&f.newClass, "new-class", false, "compute rows again that the output has in another numeric class")
	cmd.Flags().BoolVar(&f.newMeaning, "new-meaning", false, "compute rows again whose results were made under an earlier meaning of the job or its tables")
	f.watch.addTo(cmd)
	cmd.Flags().BoolVar(&f.profile, "profile", false, "print at the end which kernels took the time; report.html of the run has them, too")
	cmd.Flags().BoolVar(&f.allFailures, "all-failures", false, "list every failed row, not only the first five")
	cmd.Flags().BoolVar(&f.allowEmpty, "allow-empty", false, "accept an input without rows")
}

// checkLimit returns an error if --limit is negative.
func checkLimit(n int) error {
	if n < 0 {
		return fault.Usage(fmt.Errorf("--limit is %d: give 1 or more rows, or 0 for all", n))
	}
	return nil
}

// jobRun is what runJob needs to know besides the job.
type jobRun struct {
	runFlags
	shard       shard
	retry       bool     // compute failed rows again
	verifyFiles bool     // check every file of the output and compute damaged rows again
	hooks       bool     // on_complete may run
	overrides   []string // --set texts in addition to those that the job was started with
	specs       []stages.Spec

	scoreOnly bool                       // only read scores from existing results
	adjust    func(*config.Config) error // changes the configuration; may be nil
}

// runJob opens and runs a job, and prints its result. The error decides the exit code.
func runJob(cmd *cobra.Command, start jobfile.Start, how jobRun) (err error) {
	logging, err := how.watch.startLogs()
	if err != nil {
		return err
	}
	cfg, err := start.Config(how.overrides...)
	if err != nil {
		return err
	}
	if how.adjust != nil {
		if err := how.adjust(cfg); err != nil {
			return err
		}
	}
	if err := checkLimit(start.Limit); err != nil {
		return err
	}
	if err := how.watch.check(); err != nil {
		return err
	}
	hooks, err := parseHooks(cfg, how.hooks)
	if err != nil {
		return err
	}
	signals, stopSignals := catchSignals()
	defer stopSignals()
	notices := how.notices(cmd)
	job, err := how.open(cmd, signals, cfg, pipelines.Options{
		Specs: how.specs, Version: release, Limit: start.Limit, Retry: how.retry, Start: start, NewClass: how.newClass, NewMeaning: how.newMeaning,
		Shard: how.shard.index, Shards: how.shard.count, AllowEmpty: how.allowEmpty, CancelOthers: how.cancelOthers, Repair: how.verifyFiles, ScoreOnly: how.scoreOnly,
		AllFailures: how.allFailures, PlanOnly: how.dryRun,
	})
	if err != nil {
		return err
	}
	defer job.Close()
	if notice := how.shard.notice(); notice != "" {
		slog.Warn(notice)
	}
	if how.dryRun {
		defer cancelOnSignal(cmd, signals)()
		defer notifyWhileWaiting(notices, func() string { return planProgress(job) })()
		return dryRun(cmd, job, cfg.Output.Path, how.json)
	}
	if how.json {
		how.watch.quiet = true
		if err := printOpened(cmd.OutOrStdout(), cfg.Output.Path, job.Record.ID); err != nil {
			return err
		}
	}
	w, err := how.watch.startMonitor(cmd, logging, job)
	if err != nil {
		return err
	}
	defer func() { w.stop(err) }()
	if how.shard.count > 1 && how.shard.notice() == "" {
		fmt.Fprintf(w.notices, "shard %v\n", how.shard)
	}
	planned := make(chan struct{})
	rowsStart := sync.OnceFunc(func() { close(planned) })
	ctx, stop := drainOnSignal(cmd.Context(), draining{signals: signals, out: w.aboveBar(), planned: planned, stop: job.Stop,
		timeout: time.Duration(cfg.DrainTimeout)})
	defer stop()
	stopNotices := notifyWhileWaiting(notices, func() string { return planProgress(job) })
	defer stopNotices()
	result, err := job.Run(ctx, func(p planning.Plan) {
		stopNotices()
		rowsStart()
		w.start(p)
	})
	err = whyCanceled(ctx, err)
	w.stopDisplay()
	if how.allFailures && result.Totals.Failed > int64(len(result.Totals.First)) {
		all, readErr := job.Failures(ctx)
		if readErr != nil {
			slog.Warn("not all failures could be read", "error", readErr)
		} else {
			result.Totals.First = all
		}
	}
	if err == nil || result.Totals.Rows > 0 {
		printResult(w.out, cfg.Output.Path, result, how.profile, job.Program() != "")
		if how.shard.count > 1 {
			fmt.Fprintln(w.out, aboutShard(how.shard, result))
		}
	}
	if how.json && (err == nil || result.Totals.Rows > 0) {
		if err := printEnded(cmd.OutOrStdout(), cfg.Output.Path, job.Record.ID, result); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	if result.Completed() {
		runHooks(ctx, hooks, job, w.notices)
	}
	return runError(cfg.Output.Path, job.Program() != "", result)
}

// notices returns the writer for lines that are printed before progress is shown.
func (r jobRun) notices(cmd *cobra.Command) io.Writer {
	if r.watch.quiet || r.watch.format == "json" {
		return io.Discard
	}
	return cmd.ErrOrStderr()
}

// open opens the job and locks its output. With --wait it waits while another run works on the output.
func (r jobRun) open(cmd *cobra.Command, signals <-chan os.Signal, cfg *config.Config, o pipelines.Options) (*pipelines.Job, error) {
	for {
		if r.wait && !r.dryRun {
			if err := awaitOutput(cmd, signals, cfg, o); err != nil {
				return nil, err
			}
		}
		job, err := openJob(signals, r.notices(cmd), cfg, o)
		if err != nil || r.dryRun {
			return job, err
		}
		if err = job.Attach(cmd.Context()); err == nil {
			return job, nil
		}
		job.Close()
		var locked *store.LockedError
		if !r.wait || !errors.As(err, &locked) {
			return nil, err
		}
	}
}

// aboutShard says whether this shard, or all shards, are done.
func aboutShard(s shard, r pipelines.Result) string {
	switch {
	case r.Joined:
		return fmt.Sprintf("all %d shards are done: the tables and the gallery hold the rows of all", s.count)
	case r.Totals.Pending > 0:
		return fmt.Sprintf("shard %v is not done", s)
	}
	return fmt.Sprintf("shard %v is done; the last one to end joins the tables and galleries", s)
}

// plural returns one if n is 1, else many.
func plural(n int64, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// runError returns the error for the exit code of a run that has ended. programs: the job runs programs, which a retry must allow.
func runError(output string, programs bool, r pipelines.Result) error {
	switch {
	case r.Interrupted && r.Totals.Pending > 0:
		return interrupted(fmt.Sprintf("interrupted with %d rows to do; run it again to go on", r.Totals.Pending))
	case r.Totals.Failed > 0:
		failed := fmt.Sprintf("%d of %d rows failed: see %s", r.Totals.Failed, r.Totals.Rows,
			store.Address(output, "tables/failures/*.parquet"))
		p := r.Plan
		mend := p.Mend()
		if mend != "" && p.Unusable-p.Away == p.Rows && !r.Joined {
			return fault.Usage(fmt.Errorf("none of the %d rows can be used: %s, and run the job again", p.Rows, mend))
		}
		var hints []string
		if n := p.Unusable - p.Away; n > 0 {
			hints = append(hints, fmt.Sprintf("%d cannot be used as %s: %s", n, plural(n, "it is", "they are"), mend))
		}
		if p.Away > 0 {
			hints = append(hints, fmt.Sprintf("%d %s a host that does not answer: run the job again later", p.Away,
				plural(p.Away, "names", "name")))
		}
		final := min(r.Totals.Final, r.Totals.Failed-p.Unusable)
		if final > 0 {
			hints = append(hints, fmt.Sprintf("%d would fail again as %s: change %s, or what the stage is told", final, plural(final, "it is", "they are"),
				plural(final, "the row", "the rows")))
		}
		if p.Unusable+final < r.Totals.Failed {
			hints = append(hints, fmt.Sprintf("`%s` tries them again", retryOf(output, programs)))
		}
		return fault.Failures(fmt.Errorf("%s; %s", failed, strings.Join(hints, "; ")))
	}
	return nil
}
