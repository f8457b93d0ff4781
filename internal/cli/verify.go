package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"latentbeam/internal/results/audit"

	"latentbeam/internal/storage/store"
	"latentbeam/pipelines"
	"latentbeam/pipelines/jobfile"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// verifyFlags are the flags of `latentbeam verify`.
type verifyFlags struct {
	repair, json, programs bool
	recompute              int // number of rows
}

func verifyCommand(specs []stages.Spec) *cobra.Command {
	var f verifyFlags
	cmd := &cobra.Command{
		Use:   "verify DIR",
		Short: "Read every byte of an output and compare it with what was written",
		Long: "Read every byte of an output and compare it with what was written: videos, posters, tables, pages and the\n" +
			"ledger. DIR is a path, or an address that begins with gs:// or s3://. --repair makes damaged and missing\n" +
			"files again: it runs the job of the output, which computes only the rows of these files.\n\n" +
			"--recompute 5 also computes about five rows again on this machine and compares their digests.\n\n" +
			"Exit codes: 0 all is as it was written; 1 something is damaged or missing; 2 there is no output;\n" +
			"75 a run is at work there.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return verify(cmd, args[0], f, specs) },
	}
	cmd.Flags().BoolVar(&f.repair, "repair", false, "make damaged and missing files again")
	cmd.Flags().BoolVar(&f.json, "json", false, "print what was found as JSON")
	cmd.Flags().IntVar(&f.recompute, "recompute", 0, "compute about this many rows again and compare the results; nothing is written")
	addAllowExec(cmd, &f.programs, "the output's job.json")
	return cmd
}

// recompute computes some rows of an output again and compares them.
func recompute(cmd *cobra.Command, output string, f verifyFlags, specs []stages.Spec) error {
	start, here, err := lastStart(cmd.Context(), output)
	if err != nil {
		return err
	}
	job, done, err := peek(cmd, start, pipelines.Options{Specs: trusted(specs, f.programs, "verify --recompute"),
		Limit: start.Limit, AllowEmpty: true}, here)
	if err != nil {
		return err
	}
	defer done()
	r, err := job.Recompute(cmd.Context(), f.recompute)
	if err != nil {
		return err
	}
	out := cmd.ErrOrStderr()
	for _, d := range r.Differ {
		fmt.Fprintf(out, "differs    %s\n", d)
	}
	if len(r.Differ) > 0 {
		return fault.Failures(fmt.Errorf("%d rows were computed again, and %d results are others than those in the output",
			r.Rows, len(r.Differ)))
	}
	fmt.Fprintf(out, "%d rows were computed again, and have the same results\n", r.Rows)
	return nil
}

func verify(cmd *cobra.Command, output string, f verifyFlags, specs []stages.Spec) error {
	out := cmd.OutOrStdout()
	show := func(v audit.Verified, took time.Duration) {
		if !f.json {
			PrintVerified(out, v, took)
		}
	}
	s, err := Existing(cmd.Context(), output)
	if err != nil {
		return err
	}
	defer s.Close()
	began := time.Now()
	found, err := audit.Verify(cmd.Context(), s)
	if err != nil {
		return err
	}
	show(found, time.Since(began))
	repaired := !found.Sound() && f.repair
	if repaired {
		if found.Is(audit.Damaged, jobfile.Name) { // the damaged file may describe another job
			return fault.Usage(fmt.Errorf("%s is damaged, so the job is not known; run the job by its YAML, which mends "+
				"the output", store.Address(output, jobfile.Name)))
		}
		cmd.SetOut(cmd.ErrOrStderr()) // stdout gets the findings after the repair only
		err := repair(cmd, output, specs, f.programs)
		cmd.SetOut(out)
		if err != nil {
			return err
		}
		began = time.Now()
		if found, err = audit.Verify(cmd.Context(), s); err != nil {
			return err
		}
		show(found, time.Since(began))
	}
	if f.json {
		if err := printJSON(out, found); err != nil {
			return err
		}
	}
	if found.Sound() && f.recompute > 0 {
		return recompute(cmd, output, f, specs)
	}
	if found.Sound() {
		return nil
	}
	return fault.Failures(fmt.Errorf("damaged files or rows: %d, missing files: %d; %s", found.Counts[audit.Damaged],
		found.Counts[audit.Missing], repairHint(output, repaired)))
}

// repairHint says what to do about damage. repaired: a repair was tried and did not help.
func repairHint(output string, repaired bool) string {
	if repaired {
		return fmt.Sprintf("a repair does not mend them: no row of the job makes them any more. `latentbeam explain %s KEY` says "+
			"more of a row; remove the output, or these files, to start over", output)
	}
	return fmt.Sprintf("`latentbeam verify %s --repair` makes them again", output)
}

// repair runs the job of an output again and checks every file, so that damaged and missing files are made again.
func repair(cmd *cobra.Command, output string, specs []stages.Spec, programs bool) error {
	start, here, err := lastStart(cmd.Context(), output)
	if err != nil {
		return err
	}
	err = runJob(cmd, start, jobRun{runFlags: runFlags{allowEmpty: true}, verifyFiles: true, overrides: []string{here},
		specs: trusted(specs, programs, "verify --repair")})
	if fault.ExitCode(err) == fault.ExitFailures {
		return nil // rows that had failed before do not matter here
	}
	return err
}
