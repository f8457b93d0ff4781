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

// Stores says how the store of an output is opened. The zero value finds the stores of addresses.
type Stores struct {
	Output   func(ctx context.Context, url string) (store.Store, error) // to write; it creates what is missing
	Unsafe   bool                                                       // also in a bucket that breaks its promises
	Existing func(ctx context.Context, url string) (store.Store, error) // only to read; fs.ErrNotExist where there is none
}

// Write opens an output to write it.
func (o Stores) Write(ctx context.Context, url string) (store.Store, error) {
	if o.Output != nil {
		return o.Output(ctx, url)
	}
	if o.Unsafe {
		return open.Unsafe(ctx, url)
	}
	return open.Output(ctx, url)
}

// Read opens an output only to read it; where there is none, it answers fs.ErrNotExist.
func (o Stores) Read(ctx context.Context, url string) (store.Store, error) {
	if o.Existing != nil {
		return o.Existing(ctx, url)
	}
	return open.Existing(ctx, url)
}

// readFile reads a whole object of an output that is there.
func (o Stores) readFile(ctx context.Context, url, name string) ([]byte, error) {
	s, err := o.Read(ctx, url)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return store.ReadFile(ctx, s, name)
}

// Class returns the numeric class in which the last run on an output computed; "" where nothing says it.
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

// Recall reads from the output what an earlier run in the same numeric class learned of memory. An output that
// is not there or cannot be read has nothing to say.
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

// Part names the files of one shard: "00001-of-00004-", counting from 0 as parquet writers do; "" where there is one.
func Part(shard, shards int) string {
	if shards <= 1 {
		return ""
	}
	return fmt.Sprintf("%05d-of-%05d-", shard, shards)
}
