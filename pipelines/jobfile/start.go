// Package jobfile is job.json of an output: how its job was started, by which `retry` starts it again. Processes on other
// hosts are told of a job in the same way.
package jobfile

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"

	"latentbeam/internal/config"
	"latentbeam/internal/config/document"
	"latentbeam/internal/engine/keys"
	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/open"
	"latentbeam/stages"
)

// Name is that of the file of the output that says how its job was started.
const Name = "job.json"

// Start is how a job was started: what `retry` needs to start it again.
type Start struct {
	File string   `json:"file"` // name of the YAML, for messages
	YAML string   `json:"yaml"` // its text
	Sets []string `json:"set"`  // the --set flags
	Dir  string   `json:"dir"`  // the directory that relative paths are relative to
	// Limit is how many rows of the input the run takes; 0: all.
	Limit int `json:"limit,omitempty"`
	// Looks are the stages that only looked of earlier releases, which the keys of the output's rows may have, newest first. Nil: an
	// earlier release wrote the file, and its YAML has them.
	Looks []keys.Looks `json:"looks"`
	// Shown are measures that are no part of the job and have looked at the output's videos: tables show what they have read.
	Shown []stages.Measure `json:"shown,omitempty"`
}

// Read reads the YAML at path and notes the current directory.
func Read(path string, sets []string) (Start, error) {
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

// Last reads from an output how its job was started last.
func Last(ctx context.Context, output string) (Start, error) {
	var s Start
	there, err := open.Existing(ctx, output)
	if err != nil {
		return s, fmt.Errorf("%s is not the output of a job: %w", output, err)
	}
	defer there.Close()
	data, err := store.ReadFile(ctx, there, Name)
	if err != nil {
		return s, fmt.Errorf("%s is not the output of a job: %w", output, err)
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("read %s: %w; run the job by its YAML, which writes the file anew",
			store.Address(output, Name), err)
	}
	return s, nil
}

// Config parses the job; sets come on top of its own.
func (s Start) Config(sets ...string) (*config.Config, error) {
	return config.Parse(s.File, s.YAML, slices.Concat(s.Sets, sets))
}

// Write writes the file.
func (s Start) Write(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(s)
}

// Directory is the directory that relative paths are relative to.
func (s Start) Directory() string {
	if s.Dir != "" {
		return s.Dir
	}
	dir, err := os.Getwd()
	if err != nil {
		return "."
	}
	return dir
}
