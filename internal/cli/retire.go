package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"latentbeam/internal/config"
	"latentbeam/internal/results/audit"
	"latentbeam/internal/storage/store"
	"latentbeam/schemas/fault"
)

// retention decides which finished outputs of a scheduled job are removed.
type retention struct {
	keep  int    // number of newest outputs that stay; 0: none stays for this reason
	older string // minimum age of an output that is removed; "": any age
}

func (r retention) isSet(cmd *cobra.Command) bool {
	return cmd.Flags().Changed("keep-outputs") || r.older != ""
}

// finished is a finished output and the time when it was finished.
type finished struct {
	output string
	at     time.Time
}

// retire removes whole outputs or, without apply, prints which it would remove.
func retire(cmd *cobra.Command, outputs []string, r retention, apply bool) error {
	if cmd.Flags().Changed("keep-outputs") && r.keep < 1 {
		return fault.Usage(fmt.Errorf("--keep-outputs is %d: give 1 or more", r.keep))
	}
	age, err := parseAge(r.older)
	if err != nil {
		return fault.Usage(fmt.Errorf("--outputs-older-than %w", err))
	}
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	var all []finished
	for _, output := range outputs {
		at, done, err := finishedAt(ctx, output)
		if err != nil {
			return err
		}
		if !done {
			fmt.Fprintf(out, "%s stays: it is not a finished output\n", output)
			continue
		}
		all = append(all, finished{output, at})
	}
	slices.SortStableFunc(all, func(a, b finished) int { return cmp.Compare(b.at.UnixNano(), a.at.UnixNano()) })
	var files, bytes, gone int64
	for i, o := range all {
		if i < r.keep || age > 0 && time.Since(o.at) <= age {
			continue
		}
		gone++
		if !apply {
			fmt.Fprintf(out, "%s would be removed: it was finished at %s\n", o.output, o.at.Format(time.DateTime))
			continue
		}
		c, err := removeOutput(ctx, o.output)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s is removed: it was finished at %s\n", o.output, o.at.Format(time.DateTime))
		files, bytes = files+c.Files, bytes+c.Bytes
	}
	switch {
	case apply:
		fmt.Fprintf(out, "%d outputs are removed (%d files, %s), %d stay\n", gone, files, config.ByteSize(bytes), int64(len(outputs))-gone)
	case gone > 0:
		fmt.Fprintf(out, "%d outputs would be removed, %d stay; nothing was removed yet: --apply does it\n", gone, int64(len(outputs))-gone)
	default:
		fmt.Fprintf(out, "no output would be removed, %d stay\n", len(outputs))
	}
	return nil
}

// finishedAt returns when an output was finished, and false if it is not a finished output.
func finishedAt(ctx context.Context, output string) (time.Time, bool, error) {
	if info, err := os.Stat(output); !store.HasScheme(output) && err == nil && !info.IsDir() {
		return time.Time{}, false, nil
	}
	s, err := Existing(ctx, output)
	if err != nil {
		return time.Time{}, false, err
	}
	defer s.Close()
	return audit.FinishedAt(ctx, s)
}

// removeOutput removes an output. It also removes the directories that are empty afterwards.
func removeOutput(ctx context.Context, output string) (audit.Cleaned, error) {
	s, err := Existing(ctx, output)
	if err != nil {
		return audit.Cleaned{}, err
	}
	defer s.Close()
	c, err := audit.Retire(ctx, s)
	if err != nil || store.HasScheme(output) {
		return c, err
	}
	if err := os.Remove(filepath.Join(output, ".lock")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return c, err
	}
	return c, removeEmpty(output)
}

// removeEmpty removes empty directories below folder and folder itself, innermost first.
func removeEmpty(folder string) error {
	var folders []string
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			folders = append(folders, path)
		}
		return err
	})
	slices.Reverse(folders)
	for _, f := range folders {
		if entries, err := os.ReadDir(f); err == nil && len(entries) == 0 {
			if err := os.Remove(f); err != nil {
				return err
			}
		}
	}
	return err
}
