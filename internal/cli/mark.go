package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"latentbeam/internal/config"
	"latentbeam/internal/media/timestamp"
	"latentbeam/pipelines"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// markFlags are the flags of `latentbeam mark`.
type markFlags struct {
	marks, producer        string
	certificate, key       string
	authority              string
	prompt, json, programs bool
}

func markCommand(specs []stages.Spec) *cobra.Command {
	var f markFlags
	cmd := &cobra.Command{
		Use:   "mark DIR",
		Short: "Change the marks of synthetic media in the videos of an output, without encoding",
		Long: "Change the marks of synthetic media in the videos and posters of an output (docs/marking.md). Frames are not encoded again.\n" +
			"Rows with equal keys and equal marks have equal bytes. Records, tables and pages get the new digests. A change that was cut off\n" +
			"goes on when mark is run again. The job is read from job.json; no row is computed.\n\n" +
			"Exit codes: 0; 1 a video is damaged or missing, and kept its marks; 2 there is no output, or unknown marks;\n" +
			"75 a run is at work there.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return mark(cmd, args[0], f, specs) },
	}
	cmd.Flags().StringVar(&f.marks, "marks", "", "some of iptc, aigc and c2pa, separated by commas, or none (default: iptc,aigc, or the marks of a change that was cut off)")
	cmd.Flags().StringVar(&f.producer, "producer", "", "name of the service provider, for aigc")
	cmd.Flags().StringVar(&f.certificate, "certificate", "", "file with the certificates for c2pa, PEM (default: the job's)")
	cmd.Flags().StringVar(&f.key, "key", "", "file with the key for c2pa, PEM (default: the job's)")
	cmd.Flags().StringVar(&f.authority, "time-stamp-authority", "", "address of the authority that gives each signature of c2pa a time stamp (RFC 3161)")
	cmd.Flags().BoolVar(&f.prompt, "prompt", false, "write the prompt and the parameters into the manifest of c2pa")
	cmd.Flags().BoolVar(&f.json, "json", false, "print what was changed as JSON")
	addAllowExec(cmd, &f.programs, "the output's job.json")
	return cmd
}

// requestedMarks returns the marks that the flags ask for. It checks the flags and makes paths absolute.
func (f *markFlags) requestedMarks() (m config.Marks, err error) {
	for _, path := range []*string{&f.certificate, &f.key} { // relative paths break when lastStart changes the working directory
		if *path != "" {
			if *path, err = filepath.Abs(*path); err != nil {
				return m, fault.Usage(err)
			}
		}
	}
	m.Certificate, m.Key = f.certificate, f.key
	if f.marks == "" {
		if f.authority != "" {
			return m, fault.Usage(errors.New("--time-stamp-authority needs --marks with c2pa"))
		}
		if f.producer != "" {
			return m, fault.Usage(fmt.Errorf("--producer %q needs --marks with aigc", f.producer))
		}
		return m, nil
	}
	m = config.ParseMarks(f.marks)
	m.Certificate, m.Key, m.Prompt, m.TimeStampAuthority = f.certificate, f.key, f.prompt, f.authority
	if wrong := m.Problem(); wrong != "" {
		return m, fault.Usage(fmt.Errorf("--marks %q: %s; give names with commas between them, or none", f.marks, wrong))
	}
	if m.Producer = f.producer; f.producer != "" && !m.AIGC {
		return m, fault.Usage(fmt.Errorf("--producer %q is only for aigc, which is not among the marks %v", f.producer, m))
	}
	if !m.C2PA && (f.certificate != "" || f.key != "" || f.prompt || f.authority != "") {
		return m, fault.Usage(fmt.Errorf("--certificate, --key, --prompt and --time-stamp-authority are for c2pa, which is not among the marks %v", m.Names()))
	}
	if f.authority != "" {
		if err := timestamp.CheckURL(f.authority); err != nil {
			return m, fault.Usage(fmt.Errorf("--time-stamp-authority: %w", err))
		}
	}
	return m, nil
}

func mark(cmd *cobra.Command, output string, f markFlags, specs []stages.Spec) error {
	asked, err := f.requestedMarks()
	if err != nil {
		return err
	}
	start, here, err := lastStart(cmd.Context(), output)
	if err != nil {
		return err
	}
	cfg, err := start.Config(here)
	if err != nil {
		return err
	}
	signals, stopSignals := catchSignals()
	defer stopSignals()
	job, err := openJob(signals, cmd.ErrOrStderr(), cfg, pipelines.Options{Specs: trusted(specs, f.programs, "mark"), Version: release, Start: start,
		Limit: start.Limit, AllowEmpty: true, Inspect: true, AsRecorded: true})
	if err != nil {
		return err
	}
	defer job.Close()
	ctx, stopWaiting := untilSignal(cmd.Context(), signals, func(s os.Signal) error {
		return interrupted(fmt.Sprintf("%v: run it again to go on", s))
	})
	defer stopWaiting()
	done, err := job.Mark(ctx, asked)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if f.json {
		if err := printJSON(out, done); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(out, "marks %s: %d rows changed, %d had them\n", cmp.Or(strings.Join(done.Marks, ", "), config.NoMarks), done.Rows, done.Kept)
	}
	if done.Damaged > 0 {
		return fault.Failures(fmt.Errorf("%d rows keep their marks, because one of their files is missing or damaged (the first is %s); "+
			"`latentbeam verify %s --repair` makes them again", done.Damaged, done.First, output))
	}
	return nil
}
