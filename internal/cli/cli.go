// Package cli is the command line of latentbeam. Each verb has its own file. It reads flags, opens the job and prints results;
// package pipelines does the work of a job.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"latentbeam/internal/config/document"
	"latentbeam/internal/watch/logs"
	"latentbeam/pipelines"
	"latentbeam/runners"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// Main runs the command line of this process with the stages of specs and returns the exit code.
func Main(specs []stages.Spec) int {
	Log.SetWriter(nil)
	slog.SetDefault(logs.New(Log, logs.Options{}))
	if duplicate := duplicateName(specs); duplicate != "" {
		fmt.Fprintf(os.Stderr, "latentbeam: two stages are named %q\n  fix: give the stage of this program another name\n", duplicate)
		return fault.ExitUsage
	}
	if worker, found := runners.BootArgs(os.Args[1:]); found {
		return boot(specs, worker, os.Stderr)
	}
	// Printed text can contain text of tables, hubs and programs, so control characters in it are made visible.
	return execute(context.Background(), specs, os.Args[1:], &logs.VisibleWriter{To: os.Stdout}, &logs.VisibleWriter{To: os.Stderr})
}

// boot runs this process as a worker that a Beam engine started. It returns when the engine closes the connection.
func boot(specs []stages.Spec, worker runners.Worker, stderr io.Writer) int {
	remote := pipelines.NewWorker(specs, release)
	defer remote.Close()
	remote.Serve()
	if err := runners.Boot(context.Background(), worker); err != nil {
		fmt.Fprintln(stderr, "latentbeam:", err)
		return fault.ExitCode(err)
	}
	return fault.ExitDone
}

// duplicateName returns the first name that two stages share, or "".
func duplicateName(specs []stages.Spec) string {
	names := stages.Names(specs)
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return name
		}
	}
	return ""
}

// rootCommand returns the root command with every verb of the program.
func rootCommand(specs []stages.Spec) *cobra.Command {
	root := &cobra.Command{
		Use:               "latentbeam",
		Short:             "Offline video diffusion: a prompt table in, videos and parquet out",
		Version:           versionText(),
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	root.AddCommand(runCommand(specs), planCommand(specs), retryCommand(specs), scoreCommand(specs), initCommand(), stagesCommand(specs))
	root.AddCommand(workerCommand(specs), doctorCommand(), versionCommand(), verifyCommand(specs), markCommand(specs), explainCommand(specs))
	root.AddCommand(modelCommands(release)...)
	root.AddCommand(outputCommands()...)
	root.SetVersionTemplate("latentbeam {{.Version}}\n")
	return root
}

// execute runs a command line, prints its error and returns the exit code.
func execute(ctx context.Context, specs []stages.Spec, args []string, stdout, stderr io.Writer) int {
	parsed := false
	jsonErrors = nil
	root := rootCommand(specs)
	root.PersistentPreRun = func(*cobra.Command, []string) { parsed = true }
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return fault.ExitDone
	}
	err = whyCanceled(cmd.Context(), err)
	printError(stderr, err)
	if !parsed { // cobra refused the command line
		if cmd == root {
			fmt.Fprintln(stderr, "  fix: latentbeam --help lists the commands")
		} else {
			fmt.Fprintf(stderr, "  fix: write %s; %s --help tells more\n", cmd.UseLine(), cmd.CommandPath())
		}
		return fault.ExitUsage
	}
	code := fault.ExitCode(err)
	var wrong *document.Error
	if code == fault.ExitFatal && errors.As(err, &wrong) {
		code = fault.ExitUsage
	}
	return code
}
