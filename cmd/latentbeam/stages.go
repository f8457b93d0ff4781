package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"latentbeam/stages/catalog"
)

func stagesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "stages",
		Short: "List the stages that a job can name, with what each takes and gives",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "STAGE\tTAKES\tGIVES\tWHAT IT DOES")
			for _, s := range catalog.All() {
				in, out := string(s.In), string(s.Out)
				if in == "" {
					in, out = "any", "the same"
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", s.Name, in, out, s.Doc)
			}
			return w.Flush()
		},
	}
}
