package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"latentbeam/internal/config"
	"latentbeam/internal/results/audit"
	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/open"
	"latentbeam/internal/watch/progress"
	"latentbeam/schemas/fault"
)

// outputCommands returns the verbs about outputs.
func outputCommands() []*cobra.Command {
	return []*cobra.Command{cleanCommand(), copyCommand(), diffCommand(), exportCommand(), statusCommand()}
}

// Existing opens an output. A missing output is a usage error.
func Existing(ctx context.Context, output string) (store.Store, error) {
	s, err := open.Existing(ctx, output)
	if errors.Is(err, fs.ErrNotExist) || fault.ExitCode(err) == fault.ExitFatal {
		err = fault.Usage(err)
	}
	return s, err
}

// shownFindings limits how many findings of one kind are printed; --json has more.
const shownFindings = 20

// PrintVerified prints the findings of a verification.
func PrintVerified(out io.Writer, v audit.Verified, took time.Duration) {
	fmt.Fprintf(out, "%s: %s, %d files, %s read in %s\n", v.Output, progress.Rows(v.Rows), v.Files, config.ByteSize(v.Bytes),
		took.Round(10*time.Millisecond))
	shown := map[string]int64{}
	for _, f := range v.Findings {
		if shown[f.Kind]++; shown[f.Kind] <= shownFindings {
			fmt.Fprintf(out, "%-9s  %s: %s\n", f.Kind, f.File, f.Why)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(v.Counts)) {
		if more := v.Counts[kind] - min(shown[kind], shownFindings); more > 0 {
			fmt.Fprintf(out, "%-9s  and %d more; --json lists more of them\n", kind, more)
		}
	}
	if v.Undigested > 0 {
		fmt.Fprintf(out, "note: of %d files only the size is known and was compared, such as %s: an earlier program wrote them, "+
			"or no table names their row: the run was ended before it wrote its tables, or the row was found damaged\n",
			v.Undigested, v.Sizes[0])
	}
	if n := v.Counts[audit.Stale]; n > 0 {
		fmt.Fprintf(out, "note: %d files are damaged or missing that no table names; nothing needs them, and "+
			"`latentbeam clean %s --apply` removes what is left of them\n", n, v.Output)
	}
	if v.Sound() {
		what := "all"
		if v.Counts[audit.Stale] > 0 {
			what = "all that the tables name"
		}
		fmt.Fprintln(out, what, "is as it was written")
	}
}
