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

// Prefix is the prefix of the names of all objects of this package.
const Prefix = "runs/"

// MaxJobs is the number of jobs whose files stay in an output.
const MaxJobs = 20

// Owns reports whether an object of an output belongs to this package and is not a result.
// Objects directly in runs/ belong to internal/storage/fingerprints, which stores the digests of results there.
func Owns(name string) bool {
	rest, found := strings.CutPrefix(name, Prefix)
	return found && strings.Contains(rest, "/")
}

// Folder is the folder runs/ID/ of one job in an output. Its methods are safe for concurrent use, also by several processes.
type Folder struct {
	Store store.Store
	ID    string
}

// JobInfo is job.json: which job was started, where and when. Only Engine and Ended change while the job runs.
type JobInfo struct {
	Schema   int       `json:"schema"` // 1
	ID       string    `json:"id"`
	Output   string    `json:"output"`               // resolved path or address
	Runner   string    `json:"runner"`               // local, flink, ...
	Endpoint string    `json:"endpoint,omitempty"`   // address of the runner's service
	Engine   string    `json:"engine_job,omitempty"` // the engine's id of the job; "": none
	Version  string    `json:"version"`              // version of the program
	Started  time.Time `json:"started"`
	File     string    `json:"file,omitempty"`   // name of the job's YAML file
	Shards   int       `json:"shards,omitempty"` // number of shards; 0: one run computes all rows
	Class    string    `json:"class,omitempty"`  // numeric class of its rows
	// Ended is the time at which the submitter saw the end of the engine's job; nil: not yet.
	Ended *time.Time `json:"ended,omitempty"`
}

// NewID returns an ID for a job that starts at now: the time in UTC and random letters.
func NewID(now time.Time) string {
	return now.UTC().Format("20060102T150405Z") + "-" + strings.ToLower(rand.Text()[:6])
}

// ShardsID returns the common ID of the shards of a job. Shards are started separately and find each other by it.
func ShardsID(shards int) string { return fmt.Sprintf("shards-of-%05d", shards) }

// name returns the name of a file of the job in the output.
func (j Folder) name(file string) string { return Prefix + j.ID + "/" + file }

// Write writes job.json. It sets info.Schema and info.ID.
func (j Folder) Write(ctx context.Context, info JobInfo) error {
	info.Schema, info.ID = schema, j.ID
	return j.replace(ctx, "job.json", info)
}

// Read reads job.json. It returns fs.ErrNotExist if there is none.
func (j Folder) Read(ctx context.Context) (info JobInfo, err error) {
	err = j.read(ctx, "job.json", &info)
	return info, err
}

// replace writes a file with value as JSON.
func (j Folder) replace(ctx context.Context, file string, value any) error {
	return j.Store.Replace(ctx, j.name(file), func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", " ")
		return e.Encode(value)
	})
}

// readTries limits how often an object is read that another process replaces during the read.
const readTries = 5

// read reads a JSON file into value.
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

// List returns the jobs of an output, the last started first. A folder without a valid job.json comes
// last, with only its ID.
func List(ctx context.Context, s store.Store) ([]JobInfo, error) {
	var jobs []JobInfo
	for info, err := range s.List(ctx, Prefix, store.Deep) {
		if err != nil {
			return nil, err
		}
		id, _, found := strings.Cut(strings.TrimPrefix(info.Name, Prefix), "/")
		if !found { // not in the folder of a job
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

// Prune removes old jobs, so that MaxJobs remain: this job and those that were started last. The process that starts a job calls
// it.
func (j Folder) Prune(ctx context.Context) error {
	jobs, err := List(ctx, j.Store)
	if err != nil {
		return err
	}
	jobs = slices.DeleteFunc(jobs, func(i JobInfo) bool { return i.ID == j.ID })
	for _, old := range jobs[min(len(jobs), MaxJobs-1):] {
		if err := (Folder{j.Store, old.ID}).remove(ctx); err != nil {
			return err
		}
	}
	return nil
}

// remove removes all files of the job.
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
		_ = os.Remove(filepath.Join(url, "runs", j.ID)) // the empty directory; it does no harm if it stays
	}
	return nil
}
