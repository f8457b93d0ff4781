package cli

import (
	"fmt"
	"net"
	"strings"

	"github.com/spf13/cobra"

	"latentbeam/internal/config"
	"latentbeam/internal/devices/doctor"
	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/bucket"
	"latentbeam/runners"
	"latentbeam/schemas/fault"
)

func doctorCommand() *cobra.Command {
	var asJSON bool
	var endpoint string
	cmd := &cobra.Command{
		Use:   "doctor [OUTPUT]",
		Short: "Say what this machine has for a job, and what each missing piece costs",
		Long: "Say what this machine has for a job, and what each missing piece costs: processor, memory, room in the\n" +
			"output directory, GPUs with their driver, health and links, and the libraries that are used where they\n" +
			"are found. Every GPU multiplies two small matrices. Nothing is changed.\n\n" +
			"Exit codes: 0; 1 when something that the machine promises does not work.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if endpoint != "" {
				return lookAt(cmd, endpoint)
			}
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
	cmd.Flags().StringVar(&endpoint, "endpoint", "", "host:port: only ask whether a job server of Beam (runner flink, spark) answers there")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print facts and findings as JSON")
	return cmd
}

// lookAt asks whether a job server answers at an endpoint.
func lookAt(cmd *cobra.Command, endpoint string) error {
	if _, _, err := net.SplitHostPort(endpoint); err != nil {
		return fault.Usage(fmt.Errorf("--endpoint is %q: write host:port, such as localhost:8099", endpoint))
	}
	if err := runners.Look(cmd.Context(), config.Runner{Endpoint: endpoint}); err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "a job server answers at %s\n", endpoint)
	return nil
}

// runDoctor prints the report; its error makes the exit code.
func runDoctor(cmd *cobra.Command, r doctor.Report, asJSON bool) error {
	out := cmd.OutOrStdout()
	if asJSON {
		if err := printJSON(out, r); err != nil {
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
