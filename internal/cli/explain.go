package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"latentbeam/pipelines"
	"latentbeam/pipelines/explain"
	"latentbeam/pipelines/jobfile"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

func explainCommand(specs []stages.Spec) *cobra.Command {
	var file string
	var sets []string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain DIR ID",
		Short: "Say what became of a row, and what would make a run compute it again",
		Long: "Say what became of a row, and what would make a run compute it again. ID is the row's id, its place in the input\n" +
			"(prompts.csv:3) or the first digits of its key. If the output has the row under another key, it says which\n" +
			"part of the key has changed. Nothing is computed and nothing written.",
		Example: "  latentbeam explain out/shapes a17\n  latentbeam explain out/shapes a17 --job edited.yaml",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			var start jobfile.Start
			var here string
			var err error
			if file != "" {
				if start, err = jobfile.Read(file, sets); err != nil {
					return fault.Usage(err)
				}
				here, err = outputAt(args[0])
			} else {
				start, here, err = lastStart(cmd.Context(), args[0])
				start.Sets = append(start.Sets, sets...)
			}
			if err != nil {
				return err
			}
			all, err := explainRow(cmd, start, here, args[1], specs)
			if err != nil {
				return err
			}
			if len(all) == 0 {
				return fault.Usage(fmt.Errorf("explain: no row of the input is called %q, by id, by place (prompts.csv:3) or by the first "+
					"digits of its key; the results of rows that were taken out stay until `latentbeam clean`", args[1]))
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), all)
			}
			for _, x := range all {
				printExplained(cmd.OutOrStdout(), x)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&file, "job", "", "the job's YAML, if it has changed since the last run")
	cmd.Flags().StringArrayVar(&sets, "set", nil, "override a key of the YAML, such as defaults.seed=7 (repeatable)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the answer as JSON")
	return cmd
}

// explainRow opens the job without its devices and explains the rows that id names.
func explainRow(cmd *cobra.Command, start jobfile.Start, here, id string, specs []stages.Spec) ([]explain.Answer, error) {
	job, done, err := peek(cmd, start, pipelines.Options{Specs: specs, Limit: start.Limit, Inspect: true, AllowEmpty: true}, here)
	if err != nil {
		return nil, err
	}
	defer done()
	return job.Explain(cmd.Context(), id)
}

func printExplained(out io.Writer, x explain.Answer) {
	name := x.ID
	if x.Sample > 0 {
		name = fmt.Sprintf("%s, sample %d", name, x.Sample)
	}
	fmt.Fprintf(out, "%s (%s): %s\n  why: %s\n  next: %s\n  key: %s\n", name, x.Source, x.State, x.Why, x.Next, x.Key)
	for _, f := range x.Files {
		fmt.Fprintf(out, "  file: %s\n", f)
	}
	for _, c := range x.Changed {
		fmt.Fprintf(out, "  changed: %s, from %s to %s\n", c.Name, c.A, c.B)
	}
	for _, c := range x.Depends {
		fmt.Fprintf(out, "  depends on: %s %.64s\n", c.Name, c.B)
	}
}
