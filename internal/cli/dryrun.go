package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"latentbeam/internal/watch/progress"
	"latentbeam/pipelines"
	"latentbeam/pipelines/forecast"
	"latentbeam/pipelines/planning"
	"latentbeam/stages/cost"
)

// dryRun prints what a run would do. Nothing is written.
func dryRun(cmd *cobra.Command, job *pipelines.Job, output string, asJSON bool) error {
	ctx := cmd.Context()
	if err := job.Peek(ctx); err != nil {
		return err
	}
	p, err := job.Plan(ctx)
	if err != nil {
		return err
	}
	if !asJSON {
		_, err := printPlan(ctx, cmd.OutOrStdout(), job, p)
		return err
	}
	var text strings.Builder
	predicted, err := printPlan(ctx, &text, job, p)
	if err != nil {
		return err
	}
	return printJSON(cmd.OutOrStdout(), planFacts(output, job, p, predicted, text.String()))
}

// printPlan prints what a run would do. It returns the predicted time, or the zero value if there is no prediction.
func printPlan(ctx context.Context, out io.Writer, job *pipelines.Job, p planning.Plan) (predicted forecast.Prediction, err error) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "rows\tnew\tdone\tfailed\tstale\t\n%d\t%d\t%d\t%d\t%d\t\n", p.Rows, p.New, p.Done, p.Failed, p.Stale)
	w.Flush()
	if n := p.Equal(); n > 0 {
		fmt.Fprintf(out, "\n%s equal to %s: computed once, with one result for all\n", progress.Rows(n), plural(n, "another", "others"))
	}
	printFailures(out, p.First, p.Failed)
	for _, line := range job.DescribeColumns() {
		fmt.Fprintf(out, "\n%s\n", line)
	}
	if p.Vanished > 0 {
		fmt.Fprintf(out, "\nthe input has lost %s of the finished output: a run takes them out of the tables\n", progress.Rows(p.Vanished))
	}
	if err := printClips(out, job, p); err != nil {
		return predicted, err
	}
	for _, w := range p.Warnings {
		fmt.Fprintf(out, "\nwarning: %s\n", w)
	}
	for _, note := range p.Notes {
		fmt.Fprintf(out, "\nnote: %s\n", note)
	}
	if err := job.Ready(); err != nil {
		fmt.Fprintf(out, "\nwarning: a run would stop at once: %v\n", err)
	}
	if p.Score > 0 {
		if predicted, err = printScores(ctx, out, job, p); err != nil {
			return predicted, err
		}
	}
	if p.New == 0 {
		if p.Score == 0 {
			fmt.Fprintln(out, "\nnothing to compute")
		}
		return predicted, nil
	}
	request, err := job.Request(p)
	if err != nil {
		return predicted, err
	}
	if request != nil { // the workers of a cluster compute, so the devices of this host cannot predict the time
		fmt.Fprintf(out, "\nthe job, as it would be submitted:\n%s\n", request)
		return predicted, nil
	}
	scoring := predicted.Seconds
	if predicted, err = job.Forecast().Predict(ctx, p.Work, false); err != nil {
		return predicted, err
	}
	defer func() { predicted.Seconds += scoring }()
	sample, err := job.Forecast().Sample(ctx, p.Work, predicted)
	if err != nil {
		return predicted, err
	}
	fmt.Fprintln(out)
	disk := printShapes(out, predicted, sample)
	for _, remark := range p.Remarks {
		fmt.Fprintf(out, "\n%s\n", remark)
	}
	fmt.Fprintf(out, "\n%s\n", describePrediction(predicted))
	if sample.Not != "" {
		fmt.Fprintf(out, "disk is not estimated: %s\n", sample.Not)
		return predicted, nil
	}
	fmt.Fprintf(out, "disk: about %s, by the size of one row of each shape, made with few steps\n", cost.Bytes(disk))
	return predicted, nil
}

// printScores prints the predicted time to score the rows that are done.
func printScores(ctx context.Context, out io.Writer, job *pipelines.Job, p planning.Plan) (predicted forecast.Prediction, err error) {
	if predicted, err = job.ForecastScores().Predict(ctx, p.Scores, false); err != nil {
		return predicted, err
	}
	fmt.Fprintf(out, "\n%s that %s done, to be looked at:\n", progress.Rows(p.Score), plural(p.Score, "is", "are"))
	printShapes(out, predicted, forecast.Sample{Not: "nothing is made"})
	fmt.Fprintf(out, "\n%s\n", describePrediction(predicted))
	return predicted, nil
}

// printShapes prints a line for each shape. It returns the estimated size of all rows on disk, in bytes.
func printShapes(out io.Writer, p forecast.Prediction, sample forecast.Sample) (disk int64) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "shape (WxHxF)\tsteps\trows\tbatch\ttime\tdisk\t")
	for _, s := range byShape(p.Layouts, sample) {
		time, size := "-", "-"
		if s.seconds > 0 {
			time = formatSeconds(s.seconds)
		}
		if s.fails {
			time = "fails"
		}
		if sample.Not == "" {
			size = cost.Bytes(s.disk)
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\t%s\t\n", s.shape, s.steps, s.rows, s.batch, time, size)
		disk += s.disk
	}
	w.Flush()
	return disk
}

// printClips prints how many clips the job cuts from its media, by shape, and how many each rule drops.
func printClips(out io.Writer, job *pipelines.Job, p planning.Plan) error {
	all, err := job.Forecast().Clips(p.Clips)
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

// shapeLine is the line of a dry run for the rows of one shape and number of steps.
type shapeLine struct {
	shape   string
	steps   int
	rows    int64
	batch   int
	seconds float64
	disk    int64
	fails   bool
}

// byShape merges plans of the same shape and number of steps into one line. There are several such plans if rows differ in
// other parameters, which keeps them in different batches.
func byShape(layouts []forecast.BucketPlan, sample forecast.Sample) (lines []shapeLine) {
	for _, l := range layouts {
		line := shapeLine{l.Shape.String(), l.Shape.NumInferenceSteps, l.Keys, l.Batch, 0, sample.Disk[l.Shape] * l.Keys, l.Fails != nil}
		if l.Fails == nil {
			line.seconds = l.Seconds()
		}
		i := slices.IndexFunc(lines, func(o shapeLine) bool { return o.shape == line.shape && o.steps == line.steps })
		if i < 0 {
			lines = append(lines, line)
			continue
		}
		o := &lines[i]
		o.rows, o.seconds, o.disk, o.batch = o.rows+line.rows, o.seconds+line.seconds, o.disk+line.disk, min(o.batch, line.batch)
		o.fails = o.fails || line.fails
	}
	return lines
}
