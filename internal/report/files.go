package report

import (
	"context"
	"log/slog"
	"regexp"

	"latentbeam/internal/store"
)

// Files are the files of a report, tables and pages, and their sizes in bytes.
type Files map[string]int64

// files are those of this job that there are.
func (j *Job) files(ctx context.Context) (Files, error) {
	part := regexp.QuoteMeta(j.Part)
	own := regexp.MustCompile(`^(tables/(videos|failures|latents|embeddings)-` + part + `[0-9]{5}\.parquet|` +
		part + `index(-[0-9]+)?\.html|` + part + `metadata\.parquet)$`)
	out := Files{}
	for _, directory := range []string{"tables/", ""} {
		for info, err := range j.Store.List(ctx, directory, store.Flat) {
			if err != nil {
				return nil, err
			}
			if own.MatchString(info.Name) {
				out[info.Name] = info.Size
			}
		}
	}
	return out, nil
}

// AsWritten reports whether all files of a report are there, as long as they were written.
func (j *Job) AsWritten(ctx context.Context, files Files) bool {
	sizes := j.Store.Sizes(ctx)
	defer sizes.Close()
	for name, want := range files {
		if size, err := sizes.Of(ctx, name); err != nil || size != want {
			slog.Warn("a file of the report is not as it was written: the report is written anew", "file", name)
			return false
		}
	}
	return true
}
