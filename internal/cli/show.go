package cli

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"latentbeam/internal/engine"
	"latentbeam/internal/report"
	"latentbeam/pipelines"
)

// lineEvery is how often progress is printed where there is no terminal.
const lineEvery = 5 * time.Second

// progress shows how far a run is: a bar on a terminal, a line now and then elsewhere.
type progress struct {
	w       io.Writer
	counts  *engine.Progress
	bar     func() // one step of showing
	end     func()
	quit    chan struct{}
	stopped sync.WaitGroup
}

func newProgress(w io.Writer, counts *engine.Progress) *progress {
	return &progress{w: w, counts: counts, quit: make(chan struct{})}
}

// start is called once with the plan.
func (p *progress) start(plan pipelines.Plan) {
	fmt.Fprintf(p.w, "%d rows: %d to do, %d done before, %d failed before or unusable\n",
		plan.Rows, plan.New, plan.Done, plan.Failed)
	if plan.New == 0 {
		return
	}
	every := lineEvery
	if isTerminal(p.w) {
		every = 200 * time.Millisecond
		p.showBar(plan.New)
	} else {
		p.showLines(plan.New)
	}
	p.stopped.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				p.bar()
			case <-p.quit:
				p.bar()
				p.end()
				return
			}
		}
	})
}

// settled counts the rows of the plan that came to an end. Rows that could not be read fail too, without
// being part of it.
func (p *progress) settled(total int64) int64 {
	return min(total, p.counts.Done.Load()+p.counts.Failed.Load()+p.counts.Shared.Load())
}

func (p *progress) showBar(total int64) {
	container := mpb.New(mpb.WithOutput(p.w), mpb.WithWidth(60))
	bar := container.AddBar(total,
		mpb.PrependDecorators(decor.CountersNoUnit("%d/%d rows ")),
		mpb.AppendDecorators(decor.Percentage(), decor.Name("  "), decor.AverageSpeed(0, "%.2f rows/s"),
			decor.Name("  ETA "), decor.AverageETA(decor.ET_STYLE_GO)))
	p.bar = func() { bar.SetCurrent(p.settled(total)) }
	p.end = func() {
		bar.Abort(false)
		container.Wait()
	}
}

func (p *progress) showLines(total int64) {
	began := time.Now()
	last := int64(-1)
	p.bar = func() {
		n := p.settled(total)
		if n == last {
			return
		}
		last = n
		rate := float64(n) / time.Since(began).Seconds()
		eta := "?"
		if rate > 0 {
			eta = time.Duration(float64(total-n) / rate * float64(time.Second)).Round(time.Second).String()
		}
		fmt.Fprintf(p.w, "%d/%d rows, %d failed, %.2f rows/s, ETA %s\n", n, total, p.counts.Failed.Load(), rate, eta)
	}
	p.end = func() {}
}

// stop ends the display.
func (p *progress) stop() {
	close(p.quit)
	p.stopped.Wait()
}

// isTerminal reports whether w is a character device.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// printResult prints the final table.
func printResult(out io.Writer, dir string, r pipelines.Result) {
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
				100*float64(s.Busy)/float64(max(1, all)), (s.Busy / time.Duration(max(1, r.Done))).Round(time.Microsecond))
		}
		w.Flush()
		printKernels(out, r)
	}
	printAgreement(out, r)
	printFailures(out, r.Totals.First, r.Totals.Failed)
	fmt.Fprintf(out, "\noutput: %s\n", dir)
}

// printFailures prints why the first rows failed; the failures table has all.
func printFailures(out io.Writer, first []report.Failed, all int64) {
	if len(first) == 0 {
		return
	}
	fmt.Fprintln(out, "\nfailed")
	for _, f := range first {
		message := strings.TrimPrefix(f.Message, f.Source+": ") // readers say it themselves
		fmt.Fprintf(out, "  %s: %s: %s\n", f.Source, f.Stage, strings.ReplaceAll(message, "\n", " "))
	}
	if more := all - int64(len(first)); more > 0 {
		fmt.Fprintf(out, "  and %d more\n", more)
	}
}

// kernelLines is how many kernels the final table shows; summary.json has all.
const kernelLines = 8

// printKernels prints what the devices spent most of their time on.
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

// printAgreement prints how often what was read back from the results is what the table asked for.
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
