package cli

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"latentbeam/stages"
)

func stagesCommand(specs []stages.Spec) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "stages",
		Short: "List the stages that a job can name, with what each takes and gives",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var all []stageFacts
			for _, s := range specs {
				in, out := string(s.In), string(s.Out)
				switch {
				case s.Of != nil:
					in, out = "as told", "as told"
				case in == "":
					in, out = "any", "the same"
				}
				all = append(all, stageFacts{s.Name, in, out, s.MeasuresOnly, s.Version, s.Doc})
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), struct {
					Schema int          `json:"schema"`
					Stages []stageFacts `json:"stages"`
				}{jsonSchema, all})
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "STAGE\tTAKES\tGIVES\tWHAT IT DOES")
			for _, s := range all {
				lines := wrap(s.Doc, docWidth)
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", s.Name, s.Takes, s.Gives, lines[0])
				for _, line := range lines[1:] {
					fmt.Fprintf(w, "\t\t\t%s\n", line)
				}
			}
			return w.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the stages as JSON (docs/json.md)")
	return cmd
}

// docWidth is the width of the column that describes a stage, in bytes.
const docWidth = 70

// wrap breaks a text between words into lines of at most width bytes. A longer word gets a line of its own.
func wrap(text string, width int) []string {
	lines := []string{""}
	for _, word := range strings.Fields(text) {
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = word
		case len(*last)+1+len(word) <= width:
			*last += " " + word
		default:
			lines = append(lines, word)
		}
	}
	return lines
}
