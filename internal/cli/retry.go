package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"latentbeam/internal/store"
	"latentbeam/pipelines"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

func retryCommand(specs []stages.Spec) *cobra.Command {
	var f runFlags
	var programs bool
	cmd := &cobra.Command{
		Use:   "retry DIR",
		Short: "Run the job of an output again as it was started, failed rows included",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			shard, err := shardOf(f.shard, os.Getenv)
			if err != nil {
				return fault.Usage(err)
			}
			start, err := pipelines.LastStart(cmd.Context(), args[0])
			if err != nil {
				return fault.Usage(err)
			}
			if cmd.Flags().Changed("limit") {
				start.Limit = f.limit
			}
			output := args[0]
			if !store.HasScheme(output) {
				if output, err = filepath.Abs(output); err != nil {
					return err
				}
			}
			if err := os.Chdir(start.Dir); err != nil {
				return fault.Usage(fmt.Errorf("retry: the job was started in another directory: %w", err))
			}
			here := "output.path=" + strconv.Quote(output) // it may have been moved
			return runJob(cmd, start, run{shard: shard, retry: true, empty: f.empty, cancel: f.cancel, sets: []string{here},
				specs: trusted(specs, programs, "retry")})
		},
	}
	addRunFlags(cmd, &f)
	addAllowExec(cmd, &programs, "the output's job.json")
	return cmd
}
