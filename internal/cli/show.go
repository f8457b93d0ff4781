package cli

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"latentbeam/internal/engine"
	"latentbeam/internal/results/report"
	"latentbeam/internal/storage/store"
	"latentbeam/pipelines"
)

// printResult prints the final table. profile adds the kernels; programs: the job runs programs, which a retry must allow.
func printResult(out io.Writer, dir string, r pipelines.Result, profile, programs bool) {
	if r.NothingToDo {
		fmt.Fprintf(out, "nothing to do: all %d rows of this job are in %s (%d done, %d failed)\n",
			r.Totals.Rows, dir, r.Totals.Done, r.Totals.Failed)
		printAgreement(out, r)
		printFailures(out, r.Totals.First, r.Totals.Failed)
		return
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "done\tskipped\tfailed\tpending\ttime\t\n%d\t%d\t%d\t%d\t%s\t\n",
		max(0, r.Totals.Done-r.Skipped), r.Skipped, r.Totals.Failed, r.Totals.Pending,
		r.Elapsed.Round(100*time.Millisecond))
	w.Flush()
	if r.Phases.Rows > 0 {
		fmt.Fprintf(out, "\ntime: %s\n", r.Phases)
	}
	if len(r.Stages) > 0 {
		var all time.Duration
		for _, s := range r.Stages {
			all += s.Busy
		}
		fmt.Fprintln(out)
		w = tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(w, "stage\tbusy\tshare\tper row\t")
		for _, s := range r.Stages {
			fmt.Fprintf(w, "%s\t%s\t%.0f %%\t%s\t\n", s.Stage, s.Busy.Round(time.Millisecond),
				100*float64(s.Busy)/float64(max(1, all)), perRow(s.Busy, s, r))
			for _, k := range s.Beside() {
				fmt.Fprintf(w, "%s\t%s\tbeside\t%s\t\n", k.Kernel, k.Busy.Round(time.Millisecond), perRow(k.Busy, s, r))
			}
		}
		w.Flush()
		if profile {
			printKernels(out, r)
		}
	}
	printAgreement(out, r)
	printDropped(out, r.Totals.Dropped)
	printFailures(out, r.Totals.First, r.Totals.Failed)
	for _, name := range r.Logs {
		fmt.Fprintf(out, "\nlog of programs: %s", name)
	}
	fmt.Fprintf(out, "\noutput: %s\n", dir)
	if r.Gallery != "" && r.Totals.Done > 0 {
		fmt.Fprintf(out, "gallery: %s\n", store.Address(dir, r.Gallery))
	}
	if r.Page != "" {
		fmt.Fprintf(out, "report: %s\n", store.Address(dir, r.Page))
	}
	if next := nextCommand(os.Args, runtime.GOOS, dir, programs, r); next != "" {
		fmt.Fprintf(out, "next: %s\n", next)
	}
}

// perRow returns the time of a stage divided by the rows that left it.
func perRow(d time.Duration, s engine.StageTime, r pipelines.Result) time.Duration {
	return (d / time.Duration(max(1, cmp.Or(s.Rows, r.Done)))).Round(time.Microsecond)
}

// nextCommand returns a command that the user may want to run next, or "".
func nextCommand(args []string, system, dir string, programs bool, r pipelines.Result) string {
	quoted := shellWord(dir)
	local := !store.HasScheme(dir)
	switch {
	case r.Totals.Pending > 0 && len(args) > 1:
		return commandLine(args)
	case r.Totals.Failed > r.Plan.Unusable+r.Totals.Final:
		return retryOf(dir, programs)
	case r.Gallery != "" && r.Totals.Done > 0 && local && system == "darwin":
		return "open " + shellWord(store.Address(dir, r.Gallery))
	case r.Gallery != "" && r.Totals.Done > 0 && local && system != "windows":
		return "xdg-open " + shellWord(store.Address(dir, r.Gallery))
	case r.Totals.Done > 0:
		return "latentbeam verify " + quoted
	}
	return ""
}

// retryOf returns the command that computes failed rows again. programs: the job runs programs, which must be allowed.
func retryOf(dir string, programs bool) string {
	command := "latentbeam retry " + shellWord(dir)
	if programs {
		command += " --" + allowExec
	}
	return command
}

// printFailures prints the first failed rows with their errors; the failures table has all.
func printFailures(out io.Writer, first []report.Failed, all int64) {
	if len(first) == 0 {
		return
	}
	fmt.Fprintln(out, "\nfailed")
	for _, f := range first {
		message := strings.TrimPrefix(f.Message, f.Source+": ") // some messages begin with the source already
		fmt.Fprintf(out, "  %s: %s: %s\n", f.Source, f.Stage, strings.ReplaceAll(message, "\n", " "))
	}
	if more := all - int64(len(first)); more > 0 {
		fmt.Fprintf(out, "  and %d more\n", more)
	}
}

// kernelLines is the number of kernels in the final table; summary.json has all.
const kernelLines = 8

// printKernels prints the kernels that took the most time.
func printKernels(out io.Writer, r pipelines.Result) {
	type line struct {
		stage string
		engine.KernelTime
	}
	var lines []line
	var all time.Duration
	for _, s := range r.Stages {
		for _, k := range s.Kernels {
			lines = append(lines, line{s.Stage, k})
			all += k.Busy
		}
	}
	if len(lines) == 0 {
		return
	}
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(b.Busy, a.Busy) })
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "kernel\tstage\tcalls\tbusy\tshare\tGFLOP/s\tGB/s\t")
	for _, l := range lines[:min(len(lines), kernelLines)] {
		flops := "-"
		if l.FLOP > 0 {
			flops = fmt.Sprintf("%.1f", l.Rate)
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%.0f %%\t%s\t%.1f\t\n", l.Kernel, l.stage, l.Calls,
			l.Busy.Round(time.Millisecond), 100*float64(l.Busy)/float64(max(1, all)), flops, l.Moved)
	}
	w.Flush()
}

// printAgreement prints how often the readings of the results agree with the columns of the table.
func printAgreement(out io.Writer, r pipelines.Result) {
	all, ok := r.Totals.Agreement["all"]
	if !ok {
		return
	}
	var parts []string
	for name, a := range r.Totals.Agreement {
		if name != "all" {
			parts = append(parts, fmt.Sprintf("%s %d/%d", name, a.Equal, a.Of))
		}
	}
	slices.Sort(parts)
	fmt.Fprintf(out, "\nscore: %d of %d videos are as prompted, %.1f %% (%s)\n",
		all.Equal, all.Of, 100*float64(all.Equal)/float64(max(1, all.Of)), strings.Join(parts, ", "))
}

// printDropped prints how many rows the rules of the job dropped.
func printDropped(out io.Writer, n int64) {
	if n > 0 {
		fmt.Fprintf(out, "\ndropped: %d by the rules of the job (class dropped in tables/failures)\n", n)
	}
}
