package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"latentbeam/internal/plan/layout"
	"latentbeam/pipelines"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// planFlags are the flags of `latentbeam plan`.
type planFlags struct {
	sets    []string
	workers int
	devices string
	limit   int
}

func planCommand(specs []stages.Spec) *cobra.Command {
	var f planFlags
	cmd := &cobra.Command{
		Use:   "plan FILE.yaml",
		Short: "Show how a job would use its devices, or those of a machine that you describe",
		Long: "Show how a job would use its devices, or those of a machine that you describe: the layout,\n" +
			"memory, bytes exchanged, predicted time, and what was not chosen. Nothing is computed and\n" +
			"nothing written.\n\n" +
			"Devices: " + strings.Join(layout.Known(), ", ") + ".\n" +
			"A + joins devices of one host that have no link between them, a / those of several hosts.",
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
			start, err := pipelines.ReadStart(args[0], f.sets)
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
	cmd.Flags().IntVar(&f.limit, "limit", 0, "only the first N rows of the input; 0: all")
	return cmd
}

func planJob(cmd *cobra.Command, start pipelines.Start, f planFlags, specs []stages.Spec) error {
	options := pipelines.Options{Specs: specs, Version: release, Start: start, Limit: f.limit, Look: true}
	if f.devices != "" {
		var err error
		if options.Devices, err = layout.ParseDevices(f.devices); err != nil {
			return fault.Usage(fmt.Errorf("--devices: %w", err))
		}
	}
	cfg, err := start.Config()
	if err != nil {
		return err
	}
	signals, ignore := catchSignals()
	defer ignore()
	job, err := openJob(signals, cfg, options)
	if err != nil {
		return err
	}
	defer job.Close()
	if err := job.Peek(cmd.Context()); err != nil {
		return err
	}
	p, err := job.Plan(cmd.Context())
	if err != nil {
		return err
	}
	anew := p.New == 0 && p.Rows > p.Unusable
	if anew {
		if p, err = job.PlanAnew(cmd.Context()); err != nil {
			return err
		}
	}
	devices, err := job.Devices()
	if err != nil {
		return err
	}
	layouts, err := job.Layouts(cmd.Context(), p, devices)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	printDevices(out, devices, f.devices != "")
	if anew {
		fmt.Fprintln(out, "\nevery row is done: a run computes nothing. This is the plan of the whole job done anew.")
	}
	if len(layouts) == 0 {
		fmt.Fprintln(out, "\nnothing to compute")
	}
	for _, l := range layouts {
		printLayout(out, l, devices)
	}
	if len(layouts) > 1 {
		total, err := job.Together(layouts, devices)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "\ntogether %s\n", duration(total))
	}
	return nil
}
