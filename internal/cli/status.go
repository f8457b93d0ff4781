package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"latentbeam/internal/results/report"
	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/open"
	"latentbeam/internal/watch/progress"
	"latentbeam/internal/watch/runfiles"
	"latentbeam/schemas/fault"
)

func statusCommand() *cobra.Command {
	var watch, asJSON bool
	var job string
	cmd := &cobra.Command{
		Use:   "status DIR",
		Short: "Say how far the job of an output is, from any terminal or host",
		Long: "Say how far the last job of an output is, what its processes do, and what is stuck. DIR is a path, or an\n" +
			"address that begins with gs:// or s3://. It only reads, and may be called at any time.\n\n" +
			"Exit codes: 0; 2 when there is no output; 75 when it cannot be read now.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := open.Existing(cmd.Context(), args[0])
			if watch && errors.Is(err, fs.ErrNotExist) {
				if s, err = waitForOutput(cmd, args[0]); s == nil && err == nil {
					return nil // the wait was canceled
				}
			}
			if errors.Is(err, fs.ErrNotExist) {
				return fault.Usage(err)
			}
			if err != nil {
				return err
			}
			defer s.Close()
			for {
				over, err := showStatus(cmd, s, job, asJSON, watch)
				if err != nil || over || !watch {
					return err
				}
				select {
				case <-time.After(runfiles.Every(s)):
				case <-cmd.Context().Done():
					return nil
				}
			}
		},
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "print the status again and again until the job has ended; if the output does not exist yet, wait for it")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one object a line")
	cmd.Flags().StringVar(&job, "job", "", "an earlier job by its name under runs/ (default the last)")
	return cmd
}

// waitForOutput opens an output as soon as it exists. It returns nil if the context ends first.
func waitForOutput(cmd *cobra.Command, address string) (s store.Store, err error) {
	fmt.Fprintf(cmd.ErrOrStderr(), "waiting: there is no output at %s yet\n", address)
	for {
		s, err = open.Existing(cmd.Context(), address)
		if !errors.Is(err, fs.ErrNotExist) {
			return s, err
		}
		select {
		case <-time.After(time.Second):
		case <-cmd.Context().Done():
			return nil, nil
		}
	}
}

// clearScreen clears a terminal and moves the cursor to its top.
const clearScreen = "\x1b[H\x1b[2J"

// showStatus prints the status once and reports whether the job is over.
func showStatus(cmd *cobra.Command, s store.Store, job string, asJSON, again bool) (over bool, err error) {
	st, err := progress.Read(cmd.Context(), s, job)
	if errors.Is(err, progress.ErrNoJob) {
		err := printWithoutFacts(cmd, s, job)
		if again && job == "" && err != nil { // the folder exists, but no run has started
			return false, nil
		}
		return true, err
	}
	if err != nil {
		return false, err
	}
	out := cmd.OutOrStdout()
	if asJSON {
		return st.Over(), json.NewEncoder(out).Encode(st)
	}
	if again && isTerminal(out) {
		_, _ = io.WriteString(unwrapWriter(out), clearScreen)
	}
	st.Print(out)
	if again && !isTerminal(out) && !st.Over() {
		fmt.Fprintln(out, "--")
	}
	return st.Over(), nil
}

// printWithoutFacts prints what is known of an output without run files. An earlier version wrote it, or its run had nothing to do.
func printWithoutFacts(cmd *cobra.Command, s store.Store, job string) error {
	if job != "" {
		return fault.Usage(fmt.Errorf("status: %s knows no job %s; its jobs are under %s", s.URL(), job, store.Address(s.URL(), "runs")))
	}
	sum, err := report.ReadSummary(cmd.Context(), s, new(report.Job).SummaryName())
	if err != nil {
		return fault.Usage(fmt.Errorf("status: %s is not the output of a job, or no run of it has begun", s.URL()))
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: %s, %s, %d done, %d failed; no run of it has written facts\n", s.URL(), sum.State,
		progress.Rows(sum.Totals.Rows), sum.Totals.Done, sum.Totals.Failed)
	return nil
}
