// Command latentbeam runs offline video-diffusion jobs: a prompt table goes in, videos and parquet
// tables come out. One file holds each verb; the work is done in pipelines.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"latentbeam/internal/config"
	"latentbeam/internal/fault"
)

func main() {
	slog.SetDefault(log(os.Stderr))
	os.Exit(execute(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

// execute runs the command line and returns the exit code.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	begun := false
	root := &cobra.Command{
		Use:               "latentbeam",
		Short:             "Offline video diffusion: a prompt table in, videos and parquet out",
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		PersistentPreRun:  func(*cobra.Command, []string) { begun = true },
	}
	root.AddCommand(runCommand(), planCommand(), retryCommand(), initCommand(), stagesCommand(), versionCommand())
	root.AddCommand(convertCommand(), inspectCommand(), workerCommand(), doctorCommand())
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return fault.ExitDone
	}
	fmt.Fprintln(stderr, "latentbeam:", err)
	if !begun { // cobra refused the command line
		if cmd == root {
			fmt.Fprintln(stderr, "  fix: latentbeam --help lists the commands")
		} else {
			fmt.Fprintf(stderr, "  fix: write %s; %s --help tells more\n", cmd.UseLine(), cmd.CommandPath())
		}
		return fault.ExitUsage
	}
	code := fault.ExitCode(err)
	var wrong *config.Error
	if code == fault.ExitFatal && errors.As(err, &wrong) {
		code = fault.ExitUsage
	}
	return code
}
