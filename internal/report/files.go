package report

import (
	"log/slog"
	"regexp"
)

// Files are the files of a report, tables and pages, and their sizes in bytes.
type Files map[string]int64

// files are those of this job that there are.
func (j *Job) files() (Files, error) {
	part := regexp.QuoteMeta(j.Part)
	own := regexp.MustCompile(`^(tables/(videos|failures|latents|embeddings)-` + part + `[0-9]{5}\.parquet|` +
		part + `index(-[0-9]+)?\.html)$`)
	sizes := j.Store.Sizes()
	defer sizes.Close()
	out := Files{}
	for _, directory := range []string{"tables", "."} {
		names, err := j.Store.Files(directory)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if size, found := sizes.Of(name); found && own.MatchString(name) {
				out[name] = size
			}
		}
	}
	return out, nil
}

// AsWritten reports whether all files of a report are there, as long as they were written.
func (j *Job) AsWritten(files Files) bool {
	sizes := j.Store.Sizes()
	defer sizes.Close()
	for name, want := range files {
		if size, found := sizes.Of(name); !found || size != want {
			slog.Warn("a file of the report is not as it was written: the report is written anew", "file", name)
			return false
		}
	}
	return true
}
