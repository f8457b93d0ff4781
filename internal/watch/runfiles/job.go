package runfiles

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"latentbeam/internal/storage/store"
)

// Prefix begins the names of all objects of this package.
const Prefix = "runs/"

// Keep is how many jobs an output remembers.
const Keep = 20

// Owns reports whether an object of an output belongs to this package and is no result.
// What stands directly below runs/ is of internal/storage/fingerprints: how results looked when they were right.
func Owns(name string) bool {
	rest, found := strings.CutPrefix(name, Prefix)
	return found && strings.Contains(rest, "/")
}

// Folder is the folder runs/ID/ of one job in an output. Its methods are safe for concurrent use, by several processes.
type Folder struct {
	Store store.Store
	ID    string
}

// JobInfo is job.json: which job was started, where and when. Only Engine changes while the job runs.
type JobInfo struct {
	Schema   int       `json:"schema"` // 1
	ID       string    `json:"id"`
	Output   string    `json:"output"`             // resolved path or address
	Runner   string    `json:"runner"`             // local, flink, ...
	Endpoint string    `json:"endpoint,omitempty"` // of the runner's service
	Engine   string    `json:"engine_job,omitempty"`
	Version  string    `json:"version"` // of the program
	Started  time.Time `json:"started"`
	File     string    `json:"file,omitempty"`   // the job's YAML
	Shards   int       `json:"shards,omitempty"` // 0: all rows are of one run
	Class    string    `json:"class,omitempty"`  // numeric class of its rows
	// Ended is when the process that started the job saw the engine's job end; nil: it did not.
	Ended *time.Time `json:"ended,omitempty"`
}

// NewID names a job that starts now: a time in UTC, and some letters by chance.
func NewID(now time.Time) string {
	return now.UTC().Format("20060102T150405Z") + "-" + strings.ToLower(rand.Text()[:6])
}

// ShardsID names the job that shards form together. They are started apart and find each other by it.
func ShardsID(shards int) string { return fmt.Sprintf("shards-of-%05d", shards) }

func (j Folder) name(file string) string { return Prefix + j.ID + "/" + file }

// Write replaces job.json. It sets the schema and the id.
func (j Folder) Write(ctx context.Context, info JobInfo) error {
	info.Schema, info.ID = schema, j.ID
	return j.replace(ctx, "job.json", info)
}

// Read reads job.json; fs.ErrNotExist where there is none.
func (j Folder) Read(ctx context.Context) (info JobInfo, err error) {
	err = j.read(ctx, "job.json", &info)
	return info, err
}

func (j Folder) replace(ctx context.Context, file string, value any) error {
	return j.Store.Replace(ctx, j.name(file), func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", " ")
		return e.Encode(value)
	})
}

// readTries bounds how often an object is read again that is replaced meanwhile.
const readTries = 5

func (j Folder) read(ctx context.Context, file string, value any) (err error) {
	var data []byte
	for range readTries {
		if data, err = store.ReadFile(ctx, j.Store, j.name(file)); !errors.Is(err, store.ErrChanged) {
			break
		}
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, value); err != nil {
		return fmt.Errorf("read %s: %w; another program wrote it, or a newer one", store.Address(j.Store.URL(), j.name(file)), err)
	}
	return nil
}

// List returns the jobs of an output, the last started first. A directory without a job.json that can be read comes
// last, with nothing but its ID.
func List(ctx context.Context, s store.Store) ([]JobInfo, error) {
	var jobs []JobInfo
	for info, err := range s.List(ctx, Prefix, store.Deep) {
		if err != nil {
			return nil, err
		}
		id, _, found := strings.Cut(strings.TrimPrefix(info.Name, Prefix), "/")
		if !found { // no job's
			continue
		}
		if len(jobs) > 0 && jobs[len(jobs)-1].ID == id {
			continue
		}
		one, err := Folder{s, id}.Read(ctx)
		if ctx.Err() != nil {
			return nil, err
		}
		if one.ID = id; err != nil {
			one = JobInfo{ID: id}
		}
		jobs = append(jobs, one)
	}
	slices.SortStableFunc(jobs, func(a, b JobInfo) int { return cmp.Or(b.Started.Compare(a.Started), cmp.Compare(b.ID, a.ID)) })
	return jobs, nil
}

// Prune removes all jobs but this one and the last started, Keep in all. It is for the process that starts a job.
func (j Folder) Prune(ctx context.Context) error {
	jobs, err := List(ctx, j.Store)
	if err != nil {
		return err
	}
	jobs = slices.DeleteFunc(jobs, func(i JobInfo) bool { return i.ID == j.ID })
	for _, old := range jobs[min(len(jobs), Keep-1):] {
		if err := (Folder{j.Store, old.ID}).remove(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (j Folder) remove(ctx context.Context) error {
	names, err := store.Names(ctx, j.Store, j.name(""), store.Deep)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := j.Store.Remove(ctx, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if url := j.Store.URL(); !store.HasScheme(url) && filepath.IsAbs(url) {
		_ = os.Remove(filepath.Join(url, "runs", j.ID)) // the empty directory; harmless where it stays
	}
	return nil
}
