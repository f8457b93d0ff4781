package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"latentbeam/pipelines"
	"latentbeam/stages/cost"
)

// dryRun prints what a run would do. Nothing is written.
func dryRun(cmd *cobra.Command, job *pipelines.Job) error {
	ctx := cmd.Context()
	if err := job.Peek(ctx); err != nil {
		return err
	}
	p, err := job.Plan(ctx)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "rows\tnew\tdone\tfailed\tstale\t\n%d\t%d\t%d\t%d\t%d\t\n", p.Rows, p.New, p.Done, p.Failed, p.Stale)
	w.Flush()
	printFailures(out, p.First, p.Failed)
	if p.Vanished > 0 {
		fmt.Fprintf(out, "\nthe input has lost %d rows of the finished output: a run takes them out of the tables\n", p.Vanished)
	}
	if err := printClips(out, job, p); err != nil {
		return err
	}
	for _, w := range p.Warnings {
		fmt.Fprintf(out, "\nwarning: %s\n", w)
	}
	if err := job.Ready(); err != nil {
		fmt.Fprintf(out, "\nwarning: a run would stop at once: %v\n", err)
	}
	if p.New == 0 {
		fmt.Fprintln(out, "\nnothing to compute")
		return nil
	}
	request, err := job.Request(p)
	if err != nil {
		return err
	}
	if request != nil { // this host says nothing of the workers' time
		fmt.Fprintf(out, "\nthe job, as it would be submitted:\n%s\n", request)
		return nil
	}
	e, err := job.Estimate(ctx, p)
	if err != nil {
		return err
	}
	fmt.Fprintln(out)
	w = tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "shape (WxHxF)\tsteps\trows\tbatch\teach\ttotal\tdisk\t")
	for _, b := range byShape(e.Buckets) {
		each, total, disk := b.Each.Round(10*time.Millisecond).String(), b.Total.Round(time.Second).String(), cost.Bytes(b.Disk)
		if e.Program != "" {
			each, total, disk = "-", "-", "-"
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\t%s\t%s\t\n", b.Shape, b.Shape.NumInferenceSteps, b.Rows, b.Batch, each, total, disk)
	}
	w.Flush()
	if e.Program != "" {
		fmt.Fprintf(out, "\nno time is estimated: stage %s is a program, which only a run starts; a run with --limit 1 shows what a row takes\n",
			e.Program)
		return nil
	}
	fmt.Fprintf(out, "\nestimated: %s and %s on disk (measured on one row of each shape with few steps)\n",
		e.Time.Round(time.Second), cost.Bytes(e.Disk))
	return nil
}

// printClips prints which clips the job cuts of its media, and what it leaves out.
func printClips(out io.Writer, job *pipelines.Job, p pipelines.Plan) error {
	all, err := job.Histogram(p)
	if err != nil || len(all) == 0 && p.Dropped == 0 {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\nbucket (WxHxF)\tclips\tlatents\t")
	var rows, bytes int64
	for _, c := range all {
		fmt.Fprintf(w, "%s\t%d\t%s\t\n", c.Shape, c.Rows, cost.Bytes(c.Bytes))
		rows, bytes = rows+c.Rows, bytes+c.Bytes
	}
	fmt.Fprintf(w, "all\t%d\t%s\t\n", rows, cost.Bytes(bytes))
	w.Flush()
	for _, rule := range slices.Sorted(maps.Keys(p.Reasons)) {
		fmt.Fprintf(out, "dropped: %d by %s\n", p.Reasons[rule], rule)
	}
	return nil
}

// byShape lists each shape and number of steps once: rows that differ in other things are batched apart.
func byShape(all []pipelines.BucketEstimate) (once []pipelines.BucketEstimate) {
	for _, b := range all {
		i := slices.IndexFunc(once, func(o pipelines.BucketEstimate) bool {
			return o.Shape.String() == b.Shape.String() && o.Shape.NumInferenceSteps == b.Shape.NumInferenceSteps
		})
		if i < 0 {
			once = append(once, b)
			continue
		}
		o := &once[i]
		o.Each = (o.Each*time.Duration(o.Rows) + b.Each*time.Duration(b.Rows)) / time.Duration(max(1, o.Rows+b.Rows))
		o.Rows, o.Total, o.Disk, o.Batch = o.Rows+b.Rows, o.Total+b.Total, o.Disk+b.Disk, min(o.Batch, b.Batch)
	}
	return once
}
