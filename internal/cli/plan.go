package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"latentbeam/internal/watch/progress"
	"latentbeam/pipelines"
	"latentbeam/pipelines/forecast"
	"latentbeam/pipelines/jobfile"
	"latentbeam/pipelines/planning"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
	"latentbeam/stages/layout"
)

// planFlags are the flags of `latentbeam plan`.
type planFlags struct {
	sets    []string
	workers int
	devices string
	limit   int
	explain bool
	json    bool
}

func planCommand(specs []stages.Spec) *cobra.Command {
	var f planFlags
	cmd := &cobra.Command{
		Use:   "plan FILE.yaml",
		Short: "Show how a job would use its devices, or those of a machine that you describe",
		Long: "Show how a job would use its devices, or those of a machine that you describe: the layout,\n" +
			"memory, bytes exchanged, predicted time, and what was not chosen. Nothing is computed and\n" +
			"nothing written.\n\n" +
			"--explain says what the lines and columns mean. A dry run and the report of a run predict the same.\n\n" +
			"Devices: " + strings.Join(layout.Known(), ", ") + ".\n" +
			"A + joins devices of one host that have no link between them; a / joins the devices of several hosts.",
		Example: "  latentbeam plan job.yaml --workers 3\n" +
			"  latentbeam plan job.yaml --devices 2xH100-80GB+1xT4-16GB\n" +
			"  latentbeam plan job.yaml --devices 8xH100/8xH100",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			given := cmd.Flags().Changed("workers")
			if f.devices != "" && given {
				return fault.Usage(errors.New("--workers is for this machine, --devices for another: give one of them"))
			}
			if given {
				f.sets = append(f.sets, "resources.workers="+strconv.Itoa(f.workers))
			}
			if err := checkLimit(f.limit); err != nil {
				return err
			}
			start, err := jobfile.Read(args[0], f.sets)
			if err != nil {
				return fault.Usage(err)
			}
			return planJob(cmd, start, f, specs)
		},
	}
	cmd.Flags().StringArrayVar(&f.sets, "set", nil,
		"override a key of the YAML, such as defaults.seed=7 (repeatable)")
	cmd.Flags().IntVar(&f.workers, "workers", 0, "workers of this machine, instead of resources.workers")
	cmd.Flags().StringVar(&f.devices, "devices", "", "a machine to plan for, such as 4xT4-16GB")
	cmd.Flags().BoolVar(&f.explain, "explain", false, "say at the end what the lines and columns mean")
	cmd.Flags().BoolVar(&f.json, "json", false, "print the plan as JSON (docs/json.md)")
	cmd.Flags().IntVar(&f.limit, "limit", 0, "only the first N rows of the input; 0: all")
	return cmd
}

func planJob(cmd *cobra.Command, start jobfile.Start, f planFlags, specs []stages.Spec) error {
	options := pipelines.Options{Specs: specs, Limit: f.limit, Inspect: true, PlanOnly: true}
	if f.devices != "" {
		var err error
		if options.Devices, err = layout.ParseDevices(f.devices); err != nil {
			return fault.Usage(fmt.Errorf("--devices: %w", err))
		}
	}
	job, done, err := peek(cmd, start, options)
	if err != nil {
		return err
	}
	defer done()
	p, err := job.Plan(cmd.Context())
	if err != nil {
		return err
	}
	scores := p.New == 0 && p.Score > 0
	whole := p.New == 0 && !scores && p.Rows > p.Unusable
	if whole {
		if p, err = job.PlanWhole(cmd.Context()); err != nil {
			return err
		}
	}
	by, work := job.Forecast(), p.Work
	if scores {
		by, work = job.ForecastScores(), p.Scores
	}
	predicted, err := by.Predict(cmd.Context(), work, true)
	if err != nil {
		return err
	}
	if f.json {
		var text strings.Builder
		printForecast(&text, p, predicted, f, whole, scores)
		facts := layoutFacts{Schema: jsonSchema, Output: absoluteOutput(job.Config.Output.Path), Rows: p.Rows, New: p.New, Score: p.Score, Whole: whole,
			Text: text.String()}
		if whole {
			facts.New = 0
		}
		facts.addPrediction(predicted)
		return printJSON(cmd.OutOrStdout(), facts)
	}
	printForecast(cmd.OutOrStdout(), p, predicted, f, whole, scores)
	return nil
}

// printForecast prints a plan as text. whole: every row is done, and the plan is for computing them all again; scores: the run
// only scores rows that are done.
func printForecast(out io.Writer, p planning.Plan, predicted forecast.Prediction, f planFlags, whole, scores bool) {
	printDevices(out, predicted.Devices, f.devices != "")
	if p.Lacks != "" {
		fmt.Fprintf(out, "\n%s\n", p.Lacks)
	}
	if whole {
		fmt.Fprintln(out, "\nevery row is done: a run computes nothing. This is the plan of the whole job done again.")
	}
	if scores {
		fmt.Fprintf(out, "\nevery row is done: a run looks at %s to read scores, without the other stages and their weights.\n",
			progress.Rows(p.Score))
	}
	if len(predicted.Layouts) == 0 {
		fmt.Fprintln(out, "\nnothing to compute")
		return
	}
	for _, l := range predicted.Layouts {
		printLayout(out, l, predicted.Devices)
	}
	fmt.Fprintf(out, "\n%s\n", describePrediction(predicted))
	if f.explain {
		fmt.Fprint(out, "\n"+planWords)
	}
}

// describePrediction is the sentence about the predicted time in plans and dry runs.
func describePrediction(p forecast.Prediction) string {
	without := append(slices.Clone(p.Silent), "publishing", "tables")
	if p.Seconds <= 0 {
		return "no time is predicted: the stages do not say what they cost; a run with --limit 1 shows what a row takes"
	}
	return fmt.Sprintf("predicted: %s for all rows, where nothing else is at work; without %s", roundSeconds(p.Seconds),
		strings.Join(without, ", "))
}

// roundSeconds formats seconds with two digits, because a prediction is not more exact.
func roundSeconds(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	unit := time.Duration(1)
	for d >= 100*unit {
		unit *= 10
	}
	if d < time.Minute {
		return d.Round(unit).String()
	}
	return d.Round(max(unit, time.Second)).String()
}

// planWords explains the lines and columns of a plan, for --explain.
const planWords = `layout        how many sets of how many devices compute rows of this shape, and rows in a batch
STAGE         which batches the stage gets; joined: waiting batches of one shape that become one
partition     how the ranks of a set share the frames and positions of a video
a step        time of one sampling step: work of the busiest device, and exchanges between devices; never less than it
              takes to start its kernels
sent / step   bytes that a set sends in one sampling step
waste         how much more the busiest device has to do than a fair share
time          until the last row of this shape is decoded, where nothing else is at work
not chosen    other layouts, and why
device        number and kind
columns       (row of the forward, position) pairs of the device, in blocks that look at one position over time
frames        (row of the forward, frame) pairs of the device, in blocks that look at one frame
units         heads times ranges of queries that it computes in attention over all tokens; 0: none
peak stage    stage in which the device needs the most memory
weights       bytes of that stage's weights on the device
activations   bytes of its tensors for a batch
exchange      bytes of its buffers for exchanges
in total      weights, activations and exchange
memory        memory of the device that the job may use
`
