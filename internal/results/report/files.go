package report

import (
	"context"
	"log/slog"
	"maps"
	"regexp"
	"slices"

	"latentbeam/internal/results/tables"
	"latentbeam/internal/storage/fingerprints"
	"latentbeam/internal/storage/store"
)

// Files are the files of a report, tables and pages, and their sizes in bytes.
type Files map[string]int64

// files are those of this job that there are.
func (j *Job) files(ctx context.Context) (Files, error) {
	own := regexp.MustCompile(`^` + regexp.QuoteMeta(j.Part) + `(index(-[0-9]+)?\.html|metadata\.parquet)$`)
	out := Files{}
	for _, table := range tables.Names {
		infos, err := tables.Infos(ctx, j.Output.Store, table)
		if err != nil {
			return nil, err
		}
		for _, info := range infos {
			if tables.IsOf(j.Part, info.Name) {
				out[info.Name] = info.Size
			}
		}
	}
	for info, err := range j.Output.Store.List(ctx, "", store.Flat) {
		if err != nil {
			return nil, err
		}
		if own.MatchString(info.Name) {
			out[info.Name] = info.Size
		}
	}
	return out, nil
}

// AsWritten reports whether all files of a report are there, as they were written. Tables of tensors are large:
// tensors.Home.Check has looked at them.
func (j *Job) AsWritten(ctx context.Context, files Files, look fingerprints.Look) bool {
	sizes := j.Output.Store.Sizes(ctx)
	defer sizes.Close()
	if card, known := j.Output.Witness.File(cardFile); known && look > fingerprints.LookAtSizes { // summaries do not name it
		files = maps.Clone(files)
		if files == nil {
			files = Files{}
		}
		files[cardFile] = card.Bytes
	}
	for name, want := range files {
		info, err := sizes.Of(ctx, name)
		whole := err == nil && info.Size == want && !j.Output.IsDamaged(name)
		if whole && look > fingerprints.LookAtSizes && !tables.HasTensors(name) {
			whole, err = j.Output.IsAsWritten(ctx, info, fingerprints.LookAtAll)
		}
		if err != nil || !whole {
			slog.Warn("a file of the report is not as it was written: the report is written anew", "file", name)
			return false
		}
	}
	return true
}

// OldPlaces reports whether one of the files lies where earlier releases wrote it.
func OldPlaces(files Files) bool {
	for name := range files {
		if tables.InOldPlace(name) {
			return true
		}
	}
	return false
}

// removeFrom removes the files of a table that the job no longer has: those from number i on, and those in the old
// place.
func (j *Job) removeFrom(ctx context.Context, table string, i int) error {
	names, err := tables.All(ctx, j.Output.Store, table)
	if err != nil {
		return err
	}
	keep := make([]string, i)
	for k := range keep {
		keep[k] = j.tableName(table, k)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !tables.IsOf(j.Part, name) || slices.Contains(keep, name) })
	return j.Tensors.Remove(ctx, names...)
}

// tableName names file number i of a table.
func (j *Job) tableName(table string, i int) string { return tables.File(table, j.Part, i) }
