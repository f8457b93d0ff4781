package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"latentbeam/internal/doctor"
	"latentbeam/internal/store"
	"latentbeam/internal/store/bucket"
	"latentbeam/schemas/fault"
)

func doctorCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor [OUTPUT]",
		Short: "Say what this machine has for a job, and what each missing piece costs",
		Long: "Say what this machine has for a job, and what each missing piece costs: processor, memory, room in the\n" +
			"output directory, GPUs with their driver, health and links, and the libraries that are used where they\n" +
			"are found. Every GPU multiplies two small matrices. Nothing is changed.\n\n" +
			"Exit codes: 0; 1 when something that the machine promises does not work.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "."
			if len(args) > 0 {
				dir = args[0]
			}
			if store.HasScheme(dir) {
				return fault.Usage(fmt.Errorf("doctor looks at directories, not at %s; a run of a job with --limit 1 tries a bucket",
					bucket.Redact(dir)))
			}
			return runDoctor(cmd, doctor.Examine(doctor.Collect(release, dir)), asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print facts and findings as JSON")
	return cmd
}

// runDoctor prints the report; its error makes the exit code.
func runDoctor(cmd *cobra.Command, r doctor.Report, asJSON bool) error {
	out := cmd.OutOrStdout()
	if asJSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		if err := e.Encode(r); err != nil {
			return err
		}
	} else if err := r.Print(out); err != nil {
		return err
	}
	if r.OK {
		return nil
	}
	return fault.Failures(fmt.Errorf("broken: %s", strings.Join(r.Broken(), ", ")))
}
