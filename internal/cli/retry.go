package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"latentbeam/internal/storage/store"
	"latentbeam/pipelines/jobfile"
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
			share, err := shardOf(f.shard, os.Getenv)
			if err != nil {
				return fault.Usage(err)
			}
			start, here, err := lastStart(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("limit") {
				start.Limit = f.limit
			}
			return runJob(cmd, start, jobRun{runFlags: f, shard: share, retry: true, hooks: programs, overrides: []string{here},
				specs: trusted(specs, programs, "retry")})
		},
	}
	addRunFlags(cmd, &f)
	addAllowExec(cmd, &programs, "the output's job.json")
	return cmd
}

// lastStart reads how the job of an output was started and changes to the directory in which it was started. here is the --set
// text that sets output.path to output, because the output may have been moved since.
func lastStart(ctx context.Context, output string) (start jobfile.Start, here string, err error) {
	if start, err = jobfile.Last(ctx, output); err != nil {
		return start, "", fault.Usage(err)
	}
	if here, err = outputAt(output); err != nil {
		return start, "", err
	}
	if err := os.Chdir(start.Dir); err != nil {
		return start, "", fault.Usage(fmt.Errorf("the job of %s was started in another directory: %w", output, err))
	}
	return start, here, nil
}

// outputAt returns the --set text for output.path, with an absolute path.
func outputAt(output string) (string, error) {
	if !store.HasScheme(output) {
		var err error
		if output, err = filepath.Abs(output); err != nil {
			return "", err
		}
	}
	return "output.path=" + strconv.Quote(output), nil
}
