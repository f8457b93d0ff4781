// Package cli is the command line of latentbeam. One file holds each verb about jobs and machines; those about models and
// outputs have rooms of their own. The work is done in pipelines.
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
	Log.Through(nil)
	slog.SetDefault(logs.New(Log, logs.Options{}))
	if twice := repeated(specs); twice != "" {
		fmt.Fprintf(os.Stderr, "latentbeam: two stages are named %q\n  fix: give the stage of this program another name\n", twice)
		return fault.ExitUsage
	}
	if worker, found := runners.BootArgs(os.Args[1:]); found {
		return boot(specs, worker, os.Stderr)
	}
	// All that is printed may have texts of tables, hubs and programs in it.
	return execute(context.Background(), specs, os.Args[1:], &logs.VisibleWriter{To: os.Stdout}, &logs.VisibleWriter{To: os.Stderr})
}

// boot makes this process a worker of an engine, which has started it. It ends with the engine's connection.
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

// repeated returns a name that two stages have, "" for none.
func repeated(specs []stages.Spec) string {
	names := stages.Names(specs)
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return name
		}
	}
	return ""
}

// verbs are all that the program can do.
func verbs(specs []stages.Spec) *cobra.Command {
	root := &cobra.Command{
		Use:               "latentbeam",
		Short:             "Offline video diffusion: a prompt table in, videos and parquet out",
		Version:           about(),
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

// execute runs a command line and returns the exit code.
func execute(ctx context.Context, specs []stages.Spec, args []string, stdout, stderr io.Writer) int {
	begun := false
	jsonErrors = nil
	root := verbs(specs)
	root.PersistentPreRun = func(*cobra.Command, []string) { begun = true }
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return fault.ExitDone
	}
	err = whyCanceled(cmd.Context(), err)
	printError(stderr, err)
	if !begun { // cobra refused the command line
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
