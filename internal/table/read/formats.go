package read

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"latentbeam/internal/config/document"
	"latentbeam/internal/storage/source"
)

// rowReader reads one file. next returns io.EOF after the last row. A row that cannot be read is a rawRow with a fault. After
// any other error the rest of the file cannot be read.
type rowReader interface {
	next(raw *rawRow) error
	close() error
}

// openFunc opens a file in one format. Its error concerns the whole table.
type openFunc func(path string, names names) (rowReader, error)

var openers = map[string]openFunc{
	"csv":     openCSV,
	"jsonl":   openJSONL,
	"json":    openJSON,
	"parquet": openParquetPrompts,
	"txt":     openTXT,
	"tar":     openTar,
}

// formatByExtension has the formats that "auto" detects.
var formatByExtension = map[string]string{
	".csv": "csv", ".tsv": "csv", ".json": "json", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet", ".pq": "parquet", ".txt": "txt",
	".tar": "tar",
}

// Expand returns the files of a list of locations and glob patterns: pattern by pattern, sorted within a pattern, without
// duplicates.
func Expand(patterns []string) ([]string, error) {
	files, err := source.Expand(context.Background(), patterns, MaxFiles)
	for _, file := range files {
		if info, statErr := os.Stat(file); statErr == nil && !info.IsDir() && !info.Mode().IsRegular() {
			return nil, document.NewError(document.Position{File: file}, "this is no regular file (%v)", info.Mode().Type()).
				WithFix("write the rows to a file first: a run reads them several times")
		}
	}
	return files, err
}

// openFile opens a file of prompts in the given format, or for "auto" in the format of its name.
func openFile(path, format string, n names) (rowReader, error) {
	if isFolder(path) {
		return nil, document.NewError(document.Position{File: path}, "this is a directory").
			WithFix("name the files in it: %s/*.csv", strings.TrimSuffix(path, "/"))
	}
	if captions, err := CaptionList(path); n.needed == fieldMedia && captions != "" {
		return openPairs(path, captions)
	} else if err != nil {
		return nil, err
	}
	if format == "" || format == "auto" {
		if format = textFormat(path); format == "" {
			err := document.NewError(document.Position{File: path}, "its name does not tell the format")
			if slices.Contains([]string{".gz", ".zst", ".bz2", ".xz", ".zip"}, strings.ToLower(filepath.Ext(path))) {
				return nil, err.WithFix("unpack it first: of packed tables csv, jsonl and txt are read, as .csv.gz or .csv.zst")
			}
			return nil, err.WithFix("set input.format to csv, jsonl, parquet or txt")
		}
	}
	open, known := openers[format]
	if !known {
		return nil, fmt.Errorf("open %s: format %q is not one of csv, jsonl, parquet, txt", path, format)
	}
	return inFolders(path, n, open)
}

func isFolder(path string) bool {
	if source.IsAddress(path) {
		return strings.HasSuffix(path, "/")
	}
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// textFormat returns the format of a file's name, "" for none. Text may be compressed: prompts.csv.gz.
func textFormat(path string) string {
	path = strings.ToLower(path)
	inner := path
	for ext := range packings {
		inner = strings.TrimSuffix(inner, ext)
	}
	format := formatByExtension[filepath.Ext(inner)]
	if inner != path && format == "parquet" { // parquet compresses its pages itself
		return ""
	}
	return format
}

// IsTable reports whether a file is read as a table: by its extension, unless the options name a format.
func IsTable(path string, o Options) bool {
	return o.Format != "" && o.Format != "auto" || textFormat(path) != ""
}
