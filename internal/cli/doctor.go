package cli

import (
	"fmt"
	"net"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"latentbeam/internal/config"
	"latentbeam/internal/devices/doctor"
	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/bucket"
	"latentbeam/internal/storage/store/open"
	"latentbeam/runners"
	"latentbeam/schemas/fault"
)

func doctorCommand() *cobra.Command {
	var asJSON bool
	var endpoint string
	cmd := &cobra.Command{
		Use:   "doctor [OUTPUT]",
		Short: "Check this machine or a bucket before a job, and say what each missing piece costs",
		Long: "Check this machine before a job: processor, memory, free space in the output directory, GPUs with their driver,\n" +
			"health and links, and optional libraries. Doctor says what each missing piece costs. Every GPU multiplies two\n" +
			"small matrices. Nothing is changed.\n\n" +
			"With OUTPUT it also tests the guarantees that jobs need from the storage of the output, such as \"put if absent\".\n" +
			"It writes small files into a new folder and removes them. For a bucket (s3://..., gs://...) it does nothing else;\n" +
			"the objects lie below .tmp-check/ of the prefix.\n\n" +
			"Exit codes: 0; 1 when a check of the machine or the bucket fails; 2 when the bucket refuses this\n" +
			"process; 75 when it does not answer.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if endpoint != "" {
				return inspectServer(cmd, endpoint)
			}
			dir := "."
			if len(args) > 0 {
				dir = args[0]
			}
			if store.HasScheme(dir) {
				return checkStore(cmd, dir, asJSON)
			}
			report := doctor.Examine(doctor.Collect(release, dir))
			if err := printReport(cmd, report, asJSON); err != nil || len(args) == 0 || asJSON {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout())
			return checkStore(cmd, dir, false)
		},
	}
	cmd.Flags().StringVar(&endpoint, "endpoint", "", "host:port: only ask whether a job server of Beam (runner flink, spark) answers there")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print facts and findings as JSON")
	return cmd
}

// checkStore tests the guarantees that jobs need from a store and prints a table. Its error decides the exit code.
func checkStore(cmd *cobra.Command, url string, asJSON bool) error {
	promises, err := open.Prove(cmd.Context(), url, true)
	out := cmd.OutOrStdout()
	switch {
	case err != nil && len(promises) == 0:
		return err
	case asJSON:
		if printErr := printJSON(out, promises); printErr != nil {
			return printErr
		}
	default:
		table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		for _, p := range promises {
			state := string(p.State)
			if p.State == store.Broken && !p.Needed {
				state = "note"
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", state, p.Name, p.Took.Round(time.Millisecond), oneLine(p.Found))
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	if broken := store.BrokenPromises(promises); len(broken) > 0 {
		var names []string
		for _, p := range broken {
			names = append(names, p.Name)
		}
		return fault.Failures(fmt.Errorf("broken: %s; jobs refuse this store, see docs/buckets.md", strings.Join(names, ", ")))
	}
	if !asJSON {
		fmt.Fprintf(out, "\n%s gives the guarantees that jobs need\n", bucket.Redact(url))
	}
	return nil
}

// inspectServer checks that a job server answers at endpoint and that its cluster accepts a job.
func inspectServer(cmd *cobra.Command, endpoint string) error {
	if _, _, err := net.SplitHostPort(endpoint); err != nil {
		return fault.Usage(fmt.Errorf("--endpoint is %q: write host:port, such as localhost:8099", endpoint))
	}
	if err := runners.CheckServer(cmd.Context(), config.Runner{Endpoint: endpoint}); err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "a job server answers at %s; asking its cluster to accept an empty job ...\n", endpoint)
	began := time.Now()
	if err := runners.CheckCluster(cmd.Context(), config.Runner{Endpoint: endpoint}); err != nil {
		return err
	}
	fmt.Fprintf(out, "accepted in %v\n", time.Since(began).Round(100*time.Millisecond))
	return nil
}

// printReport prints the report. Its error decides the exit code.
func printReport(cmd *cobra.Command, r doctor.Report, asJSON bool) error {
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
