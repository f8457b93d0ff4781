package runfiles

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"latentbeam/internal/storage/store"
)

// Trouble is trouble-<process>-<n>.json: an error that ended a part of a process's work. The submitter of the job
// decides what it means for the job.
type Trouble struct {
	Schema  int       `json:"schema"` // 1
	Process string    `json:"process"`
	At      time.Time `json:"at"`
	Error   string    `json:"error"`
	Exit    int       `json:"exit"` // exit code of the program for this error
}

const troubleFile = "trouble-"

// Report writes a trouble. n is its number among the troubles of the process.
func (j Folder) Report(ctx context.Context, t Trouble, n int) error {
	t.Schema = schema
	data, err := json.Marshal(t)
	if err != nil {
		return err
	}
	return j.Store.Put(ctx, store.Object{Name: j.name(fmt.Sprintf("%s%s-%d.json", troubleFile, t.Process, n)), Data: data})
}

// Troubles reads the troubles of all processes that are not in known, adds them to known and returns them.
func (j Folder) Troubles(ctx context.Context, known map[string]Trouble) (added []Trouble, err error) {
	names, err := store.Names(ctx, j.Store, j.name(troubleFile), store.Flat)
	for _, name := range names {
		if _, found := known[name]; found {
			continue
		}
		var t Trouble
		if err := j.read(ctx, name[len(j.name("")):], &t); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return added, err
		}
		known[name] = t
		added = append(added, t)
	}
	return added, err
}
