package pipelines

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"latentbeam/internal/config"
	"latentbeam/internal/config/document"
	"latentbeam/internal/store"
)

// JobFile is the file of the output that says how its job was started.
const JobFile = "job.json"

// Start is how a job was started: what `retry` needs to start it again.
type Start struct {
	File string   `json:"file"` // name of the YAML, for messages
	YAML string   `json:"yaml"` // its text
	Sets []string `json:"set"`  // the --set flags
	Dir  string   `json:"dir"`  // the directory that relative paths are relative to
	// Limit is that of Options.
	Limit int `json:"limit,omitempty"`
}

// ReadStart reads the YAML at path and notes the current directory.
func ReadStart(path string, sets []string) (Start, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
	case info.IsDir(): // reading it says so
	case !info.Mode().IsRegular():
		return Start{}, fmt.Errorf("read job: %s is no regular file; write the job to a file", path)
	case info.Size() > document.MaxFileBytes:
		return Start{}, fmt.Errorf("read job: %s has %d bytes, more than %d: is this the job's YAML? Prompts belong in a "+
			"table named under input", path, info.Size(), document.MaxFileBytes)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return Start{}, fmt.Errorf("read job: %w; `latentbeam init` writes one to start from", err)
	}
	dir, err := os.Getwd()
	if err != nil {
		return Start{}, fmt.Errorf("read job: %w", err)
	}
	return Start{File: path, YAML: string(text), Sets: sets, Dir: dir}, nil
}

// LastStart reads from an output how its job was started last.
func LastStart(ctx context.Context, output string) (Start, error) {
	var s Start
	data, err := outputs{}.readFile(ctx, output, JobFile)
	if err != nil {
		return s, fmt.Errorf("%w: %s is not the output of a job", err, output)
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("read %s: %w; run the job by its YAML, which writes the file anew",
			store.Address(output, JobFile), err)
	}
	return s, nil
}

// Config parses the job; sets come on top of its own.
func (s Start) Config(sets ...string) (*config.Config, error) {
	return config.Parse(s.File, s.YAML, slices.Concat(s.Sets, sets))
}

// keepStart writes the file of the start anew where it is gone or damaged.
func (j *Job) keepStart(ctx context.Context) error {
	data, err := store.ReadFile(ctx, j.engine.Store, JobFile)
	var s Start
	if err == nil && json.Unmarshal(data, &s) == nil && j.report.IsAsWritten(JobFile, data) {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return j.report.Replace(ctx, JobFile, j.saveStart)
}

func (j *Job) saveStart(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(j.Opts.Start)
}
