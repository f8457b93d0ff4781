// Package jobfile reads and writes job.json of an output. The file records how the job was started, so that `retry` can
// start it again. Processes on other hosts receive a job in the same form.
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

// Name is the name of the file in the output.
const Name = "job.json"

// Start records how a job was started.
type Start struct {
	File string   `json:"file"` // name of the YAML file, for messages
	YAML string   `json:"yaml"` // text of the YAML file
	Sets []string `json:"set"`  // values of the --set flags
	Dir  string   `json:"dir"`  // base directory of relative paths
	// Limit is the number of rows that the run reads from its input; 0: all.
	Limit int `json:"limit,omitempty"`
	// Looks lists stages that only measure which earlier releases included in keys of the output's rows, newest first. Nil: an
	// earlier release wrote the file, and the stages are those of its YAML.
	Looks []keys.Looks `json:"looks"`
	// Shown lists measures that were computed of the output's videos and are not part of the job. The tables show their readings.
	Shown []stages.Measure `json:"shown,omitempty"`
}

// Read reads the YAML file at path. Dir becomes the current directory.
func Read(path string, sets []string) (Start, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
	case info.IsDir(): // ReadFile below returns the error
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

// Last reads job.json of an output.
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
		return s, fmt.Errorf("read %s: %w; run the job by its YAML, which writes the file again",
			store.Address(output, Name), err)
	}
	return s, nil
}

// Config parses the configuration. sets override values of the file and of Sets.
func (s Start) Config(sets ...string) (*config.Config, error) {
	return config.Parse(s.File, s.YAML, slices.Concat(s.Sets, sets))
}

// Write writes job.json.
func (s Start) Write(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(s)
}

// Directory returns the base directory of relative paths: Dir, or the current directory if Dir is empty.
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
