package output

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"latentbeam/internal/storage/store"
	"latentbeam/pipelines/jobfile"
	"latentbeam/schemas/fault"
)

// replaced are the files at the top of an output that every run replaces. README.md is not among them: a run leaves it as it is if a
// user wrote it.
var replaced = []string{"index.html", jobfile.Name, "summary.json", "metadata.parquet", "croissant.json", "marks.json"}

// refuseForeign returns an error if a run would replace files that no run wrote: the store has some of their names, but nothing
// that only a run writes.
func refuseForeign(ctx context.Context, s store.Store) error {
	names, err := store.Names(ctx, s, "", store.Flat)
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !slices.Contains(replaced, name) })
	if len(names) == 0 {
		return nil
	}
	for _, folder := range []string{"ledger/", "runs/", "tables/"} {
		for _, err := range s.List(ctx, folder, store.Deep) {
			return err // there is one
		}
	}
	var start jobfile.Start
	if slices.Contains(names, jobfile.Name) {
		data, err := store.ReadFile(ctx, s, jobfile.Name)
		if err != nil || json.Unmarshal(data, &start) == nil && start.YAML != "" {
			return err
		}
	}
	return fault.Usage(fmt.Errorf("output %s has %s, which no run of latentbeam wrote, and a run would replace: move them away, or set "+
		"output.path to another place", s.URL(), strings.Join(names, ", ")))
}
