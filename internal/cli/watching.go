package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"latentbeam/internal/watch/logs"
	"latentbeam/internal/watch/metrics"
	"latentbeam/internal/watch/progress"
	"latentbeam/internal/watch/runfiles"
	"latentbeam/internal/watch/trace"
	"latentbeam/pipelines"
	"latentbeam/pipelines/planning"
	"latentbeam/schemas/fault"
)

// watchFlags are the flags for logs, progress, metrics and traces.
type watchFlags struct {
	format, level     string
	quiet             bool
	metrics, promFile string
	trace             string
}

// addTo adds the flags to a command that runs a job.
func (f *watchFlags) addTo(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.format, "log-format", "text", "text for people, or json: one object a line on stderr")
	flags.StringVar(&f.level, "log-level", "", "debug, info, warn or error (default: warn; with --log-format json: info)")
	flags.BoolVar(&f.quiet, "quiet", false, "no progress and no final table; warnings and errors stay")
	flags.StringVar(&f.metrics, "metrics", "", "host:port at which Prometheus finds /metrics while the job runs")
	flags.StringVar(&f.promFile, "metrics-file", "", "write metrics to this file (NAME.prom) for the node exporter's textfile collector")
	flags.StringVar(&f.trace, "trace", "", "write a timeline for ui.perfetto.dev to this file")
}

// options returns the options of the log.
func (f *watchFlags) options() (o logs.Options, err error) {
	switch f.format {
	case "text", "": // retry and tests leave it out
	case "json":
		o.JSON = true
	default:
		return o, fault.Usage(fmt.Errorf("--log-format is %q: give text or json", f.format))
	}
	if f.level != "" {
		if o.Level, err = logs.ParseLevel(f.level); err != nil {
			return o, fault.Usage(fmt.Errorf("--log-level: %w", err))
		}
		o.Set = true
	}
	return o, nil
}

// monitor shows and publishes the progress of a run: display, logs, metrics and traces.
type monitor struct {
	flags   watchFlags
	options logs.Options
	out     io.Writer // for the final table
	notices io.Writer // for other text
	job     *pipelines.Job
	display *progress.Display
	closers []func(err error)
}

// jsonErrors receives the error that ends the program; nil: the error is printed as text.
var jsonErrors *slog.Logger

// startLogs configures the default logger from the flags.
func (f *watchFlags) startLogs() (logs.Options, error) {
	o, err := f.options()
	if err != nil {
		return o, err
	}
	l := logs.New(Log, o)
	slog.SetDefault(l)
	if o.JSON {
		jsonErrors = l
	}
	return o, nil
}

// check returns an error for addresses and files that the monitor could not use. It runs before a job locks its output.
func (f watchFlags) check() error {
	if f.metrics != "" {
		l, err := net.Listen("tcp", f.metrics)
		if err != nil {
			return fault.Usage(fmt.Errorf("--metrics: %w; give a free host:port, such as 127.0.0.1:9464", err))
		}
		l.Close()
	}
	if err := metrics.CheckFile(f.promFile); err != nil {
		return fault.Usage(fmt.Errorf("--metrics-file %s: %w", f.promFile, err))
	}
	for _, file := range [][2]string{{"--metrics-file", f.promFile}, {"--trace", f.trace}} {
		if file[1] == "" {
			continue
		}
		if info, err := os.Stat(filepath.Dir(file[1])); err != nil || !info.IsDir() {
			return fault.Usage(fmt.Errorf("%s %s: there is no directory %s; make it first", file[0], file[1], filepath.Dir(file[1])))
		}
	}
	_, err := trace.Enabled(os.Getenv)
	if err != nil {
		return fault.Usage(err)
	}
	return nil
}

// startMonitor starts logs, metrics and traces of a job. It returns an error if it
// cannot do what a flag asks; nothing has been computed then.
func (f watchFlags) startMonitor(cmd *cobra.Command, o logs.Options, job *pipelines.Job) (w *monitor, err error) {
	w = &monitor{flags: f, options: o, out: cmd.OutOrStdout(), notices: cmd.ErrOrStderr(), job: job}
	defer func() {
		if err != nil {
			w.stop(err)
			w = nil
		}
	}()
	if f.quiet {
		w.out = io.Discard
	}
	if o.JSON {
		l := logs.New(Log, o).With("run", job.Record.ID)
		slog.SetDefault(l)
		w.notices, jsonErrors = logs.Lines(l), l
	}
	if o.JSON || o.Set {
		job.Record.Board().AddSink(logs.Spans(slog.Default()))
	}
	if err := w.startMetrics(); err != nil {
		return w, err
	}
	return w, w.startTraces(cmd.Context())
}

// startMetrics starts the HTTP server and the file of metrics, if flags ask for them.
func (w *monitor) startMetrics() error {
	if w.flags.metrics == "" && w.flags.promFile == "" {
		return nil
	}
	r := metrics.New(metrics.Run{Version: release, Facts: w.job.Record.Facts, Counts: w.job.Record.Board().Counts})
	w.job.Record.Board().AddSink(r.Sink())
	if w.flags.metrics != "" {
		at, stop, err := r.Serve(w.flags.metrics)
		if err != nil {
			return fault.Usage(fmt.Errorf("--metrics: %w; give a free host:port, such as 127.0.0.1:9464", err))
		}
		fmt.Fprintf(w.notices, "metrics at http://%s/metrics\n", at)
		w.closers = append(w.closers, func(error) { stop() })
	}
	if name := w.flags.promFile; name != "" {
		if err := r.WriteNow(name); err != nil {
			return fault.Usage(fmt.Errorf("--metrics-file %s: %w", name, err))
		}
		ctx, cancel := context.WithCancel(context.Background())
		var written sync.WaitGroup
		written.Go(func() {
			if err := r.Write(ctx, name); err != nil {
				slog.Warn("metrics are not written any more", "file", name, "error", err)
			}
		})
		w.closers = append(w.closers, func(error) { cancel(); written.Wait() })
	}
	return nil
}

// startTraces starts the timeline file and the export of spans, if they are wanted.
func (w *monitor) startTraces(ctx context.Context) error {
	if name := w.flags.trace; name != "" {
		c, err := trace.NewChrome(name, time.Now())
		if err != nil {
			return fault.Usage(fmt.Errorf("--trace: %w", err))
		}
		w.job.Record.Board().AddSink(c.Sink())
		w.closers = append(w.closers, func(error) {
			if err := c.Close(); err != nil {
				slog.Warn("the timeline is not whole", "file", name, "error", err)
			}
		})
	}
	wanted, err := trace.Enabled(os.Getenv)
	if err != nil {
		return fault.Usage(err)
	}
	if !wanted {
		return nil
	}
	o, err := trace.NewOTLP(ctx, w.job.Record.ID, release)
	if err != nil {
		return fault.Usage(fmt.Errorf("traces by OTLP: %w; see the OTEL_ variables of the environment", err))
	}
	w.job.Record.Board().AddSink(o.Sink())
	w.closers = append(w.closers, o.Close)
	return nil
}

// start prints the plan and starts to show progress.
func (w *monitor) start(plan planning.Plan) {
	if w.flags.quiet {
		return
	}
	if w.options.JSON {
		slog.Info("plan", "rows", plan.Rows, "to_do", plan.New, "done_before", plan.Done, "failed_before_or_unusable", plan.Failed)
		if plan.New > 0 {
			w.display = progress.Log(w.job.Record.Facts, logFacts)
		}
		return
	}
	fmt.Fprintf(w.notices, "%s: %d to do%s, %d done before, %d failed before or unusable\n",
		progress.Rows(plan.Rows), plan.New, equalRows(plan), plan.Done, plan.Failed)
	if plan.New > 0 {
		w.display = progress.Show(unwrapWriter(w.notices), hasColumns(w.notices), w.job.Record.Facts, Log.SetWriter)
	}
}

// equalRows says how many rows are computed if some are equal to others; else it returns "".
func equalRows(plan planning.Plan) string {
	n := plan.Equal()
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d to compute, %d equal to %s)", plan.New-n, n, plural(n, "another row", "other rows"))
}

// logFacts logs progress as a record.
func logFacts(f runfiles.Facts) {
	settled, total := progress.Settled(f)
	slog.Info("progress", "rows_settled", settled, "rows_total", total, "rows_failed", f.Rows.Failed+f.Rows.Bad, "eta_s", f.ETA,
		"state", f.State)
}

// aboveBar returns a writer for lines that must not be overwritten by the progress bar.
func (w *monitor) aboveBar() io.Writer {
	if w.options.JSON {
		return w.notices
	}
	if _, ok := unwrapWriter(w.notices).(*os.File); ok {
		return Log
	}
	return w.notices
}

// stopDisplay stops the display of progress.
func (w *monitor) stopDisplay() { w.display.Stop() }

// stop stops everything that the monitor started, last first. err is the error of the run.
func (w *monitor) stop(err error) {
	w.stopDisplay()
	for i := len(w.closers) - 1; i >= 0; i-- {
		w.closers[i](err)
	}
	w.closers = nil
}

// printError prints the error that ends the program.
func printError(stderr io.Writer, err error) {
	if jsonErrors == nil {
		fmt.Fprintln(stderr, "latentbeam:", err)
		return
	}
	level := slog.LevelError
	if errors.Is(err, context.Canceled) || fault.ExitCode(err) == fault.ExitFailures {
		level = slog.LevelWarn
	}
	jsonErrors.Log(context.Background(), level, err.Error(), "exit", fault.ExitCode(err))
}
