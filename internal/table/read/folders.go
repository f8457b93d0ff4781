package read

import (
	"context"
	"path"
	"slices"
	"strings"

	"latentbeam/internal/config/document"
	"latentbeam/internal/storage/source"
)

// Tables returns the tables in a folder and below: the parquet files, or if there are none the csv files, or else the files of
// JSON lines. As in Spark, files and folders whose names start with a dot or an underscore are ignored. Files of job outputs
// are ignored too. At most MaxFiles are listed.
func Tables(folder string) ([]string, error) {
	names, err := source.List(context.Background(), folder, MaxFiles)
	if err != nil {
		return nil, err
	}
	root := strings.TrimSuffix(folder, "/") + "/"
	outputs := outputsAmong(names)
	if outputs[""] {
		return nil, document.NewError(document.Position{File: folder}, "this is the output of a job, with several tables").
			WithFix("name one of them: %stables/latents, for instance", root)
	}
	for _, format := range []string{"parquet", "csv", "jsonl"} {
		var found []string
		for _, name := range names {
			marked := slices.ContainsFunc(strings.Split(name, "/"), func(part string) bool { return part[0] == '.' || part[0] == '_' })
			if !marked && textFormat(path.Base(name)) == format && !within(outputs, name) {
				found = append(found, root+name)
			}
		}
		if len(found) > 0 {
			return found, nil
		}
	}
	return nil, nil
}

// outputsAmong returns the folders that are outputs of jobs, each with a slash at its end. An output has a ledger and the job's
// file.
func outputsAmong(names []string) map[string]bool {
	jobs, outputs := map[string]bool{}, map[string]bool{}
	for _, name := range names {
		if folder, base := path.Split(name); base == "job.json" {
			jobs[folder] = true
		}
	}
	for _, name := range names {
		if at := strings.LastIndex("/"+name, "/ledger/"); at >= 0 && jobs[name[:at]] {
			outputs[name[:at]] = true
		}
	}
	return outputs
}

// within reports whether a file is in one of the folders.
func within(folders map[string]bool, name string) bool {
	for i := range name {
		if name[i] == '/' && folders[name[:i+1]] {
			return true
		}
	}
	return false
}

// WithoutOutputs removes the files of job outputs below a folder. If the folder itself is an output, its files stay.
func WithoutOutputs(names []string) []string {
	outputs := outputsAmong(names)
	return slices.DeleteFunc(names, func(name string) bool { return within(outputs, name) })
}

// ExpandTables is Expand, with each folder replaced by its tables.
func ExpandTables(patterns []string) (all []string, err error) {
	files, err := Expand(patterns)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		found := []string{file}
		if isFolder(file) {
			if found, err = Tables(file); err != nil {
				return nil, err
			}
			if len(found) == 0 {
				return nil, document.NewError(document.Position{File: file}, "this folder holds no parquet, csv or jsonl file").
					WithFix("name the files in it, such as %s/*.txt", strings.TrimSuffix(file, "/"))
			}
		}
		all = append(all, found...)
	}
	return unique(all), nil
}

// unique removes duplicates of files that are named by both a pattern and a folder.
func unique(files []string) []string {
	seen := map[string]bool{}
	return slices.DeleteFunc(files, func(file string) bool {
		was := seen[file]
		seen[file] = true
		return was
	})
}
