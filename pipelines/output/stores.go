package output

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"latentbeam/internal/engine/memory"
	"latentbeam/internal/results/report"
	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/open"
	"latentbeam/internal/watch/runfiles"
)

// Stores opens the stores of outputs. The zero value opens the store that an address names; tests set the functions.
type Stores struct {
	Output   func(ctx context.Context, url string) (store.Store, error) // opens for writing, creates what is missing
	Unsafe   bool                                                       // accepts buckets that lack guarantees
	Existing func(ctx context.Context, url string) (store.Store, error) // opens for reading; fs.ErrNotExist: no output
}

// Write opens an output for writing, and creates it if necessary.
func (o Stores) Write(ctx context.Context, url string) (store.Store, error) {
	if o.Output != nil {
		return o.Output(ctx, url)
	}
	if o.Unsafe {
		return open.Unsafe(ctx, url)
	}
	return open.Output(ctx, url)
}

// Read opens an output for reading. It returns fs.ErrNotExist if there is none.
func (o Stores) Read(ctx context.Context, url string) (store.Store, error) {
	if o.Existing != nil {
		return o.Existing(ctx, url)
	}
	return open.Existing(ctx, url)
}

// readFile reads a whole object of an existing output.
func (o Stores) readFile(ctx context.Context, url, name string) ([]byte, error) {
	s, err := o.Read(ctx, url)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return store.ReadFile(ctx, s, name)
}

// Class returns the numeric class of the last run on an output; "": not known.
func (o Stores) Class(ctx context.Context, output, part string) string {
	s, err := o.Read(ctx, output)
	if err != nil {
		return ""
	}
	defer s.Close()
	last := runfiles.JobInfo{}
	jobs, err := runfiles.List(ctx, s)
	if err == nil {
		for _, info := range jobs {
			if info.Class != "" && !info.Started.Before(last.Started) {
				last = info
			}
		}
	}
	if last.Class != "" {
		return last.Class
	}
	text, err := o.readFile(ctx, output, (&report.Job{Part: part}).SummaryName())
	var summary struct{ Class string }
	if err != nil || json.Unmarshal(text, &summary) != nil {
		return ""
	}
	return summary.Class
}

// Recall reads the memory measurements of an earlier run from the output. It returns nil if the output does not exist, cannot be
// read, or has another numeric class.
func (o Stores) Recall(ctx context.Context, output, part, class string) []memory.Fact {
	text, err := o.readFile(ctx, output, (&report.Job{Part: part}).SummaryName())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var s struct {
		Class string `json:"class"`
		Run   struct {
			Memory []memory.Fact `json:"memory"`
		} `json:"run"`
	}
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil || s.Class != class {
		slog.Debug("nothing is recalled of memory", "class", s.Class, "error", err)
		return nil
	}
	return s.Run.Memory
}

// Part returns the prefix of the names of one shard's files, such as "00001-of-00004-"; shards count from 0. It returns "" for a run
// without shards.
func Part(shard, shards int) string {
	if shards <= 1 {
		return ""
	}
	return fmt.Sprintf("%05d-of-%05d-", shard, shards)
}
