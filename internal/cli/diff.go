package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"latentbeam/internal/results/audit"

	"latentbeam/schemas/fault"
)

func diffCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Say how the rows of two outputs differ",
		Long: "Say how the rows of two outputs differ: which rows are in one output only, and which columns differ. Results are compared\n" +
			"by the digests in the tables; verify compares the digests with the files.\n\n" +
			"Exit codes: 0 the same rows with the same results; 1 they differ; 2 there is no output.",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := Existing(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			defer a.Close()
			b, err := Existing(cmd.Context(), args[1])
			if err != nil {
				return err
			}
			defer b.Close()
			d, err := audit.Compare(cmd.Context(), a, b)
			if err != nil {
				return err
			}
			if asJSON {
				err = printJSON(cmd.OutOrStdout(), d)
			} else {
				printDiff(cmd.OutOrStdout(), d)
			}
			if err == nil && !d.Equal() {
				err = fault.Failures(errors.New("the outputs differ"))
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the differences as JSON")
	return cmd
}

// valueBytes limits how many bytes of a value are printed.
const valueBytes = 64

func printDiff(out io.Writer, d audit.Differences) {
	for _, t := range d.Tables {
		fmt.Fprintf(out, "%s: %d rows are the same, %d differ, %d are in A alone, %d in B alone\n", t.Table, t.Same,
			t.Other, t.OnlyA, t.OnlyB)
		for i, r := range t.Rows {
			if i == shownFindings {
				fmt.Fprintf(out, "  and %d more; --json lists more of them\n", t.Other+t.OnlyA+t.OnlyB-int64(i))
				break
			}
			name := r.ID
			if r.Sample > 0 {
				name = fmt.Sprintf("%s, sample %d", r.ID, r.Sample)
			}
			if r.In != "both" {
				fmt.Fprintf(out, "  %s: only in %s\n", name, map[string]string{"a": d.A, "b": d.B}[r.In])
				continue
			}
			fmt.Fprintf(out, "  %s:", name)
			for _, c := range r.Columns {
				fmt.Fprintf(out, " %s %.*s -> %.*s;", c.Name, valueBytes, c.A, valueBytes, c.B)
			}
			fmt.Fprintln(out)
		}
	}
	if d.Marks != nil {
		fmt.Fprintf(out, "the files of A have the marks %s, those of B %s: they were compared without marks\n", d.Marks[0], d.Marks[1])
	}
	if d.Equal() {
		fmt.Fprintln(out, "the outputs have the same rows with the same results")
	}
}
