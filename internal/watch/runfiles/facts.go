package runfiles

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"latentbeam/internal/storage/store"
)

// schema is the version of the files. A newer program adds fields and raises it only when old ones change meaning.
const schema = 1

// Facts is facts-<process>.json: how far one process of a job is.
type Facts struct {
	Schema  int       `json:"schema"` // 1
	Process string    `json:"process"`
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	At      time.Time `json:"at"`      // when the facts were written, by the clock of the process
	Started time.Time `json:"started"` // of the process's part
	Every   float64   `json:"every_s"` // seconds between two writes
	Lock    string    `json:"lock"`    // the lock that the process holds while it lives

	Away    bool `json:"away,omitempty"`    // the other processes of the job compute the rows of this one
	Workers int  `json:"workers,omitempty"` // of the job that this one has seen, where Away

	State State   `json:"state"`
	Error string  `json:"error,omitempty"` // why the process ended early
	Rows  Rows    `json:"rows"`
	First string  `json:"first_failure,omitempty"` // reason of the first row that failed in this run
	ETA   float64 `json:"eta_s,omitempty"`         // seconds that are left; 0: not known

	Batches []Batch       `json:"batches"` // at work or waiting for devices
	Devices []DeviceState `json:"devices"`
	Rates   []Rate        `json:"rates"`  // by shape
	Stages  []StageTotals `json:"stages"` // in the order of the job
}

// State says what a process does.
type State string

// States of a process.
const (
	Preparing State = "preparing" // the plan is known, weights are loaded
	Running   State = "running"
	Stopping  State = "stopping" // what is in flight is finished
	Writing   State = "writing"  // tables and pages

	Cancelling State = "cancelling" // what is in flight is given up
	Done       State = "done"       // the process has ended; rows may be left, see Rows
	Stopped    State = "stopped"    // the process was asked to end, and has; rows are left. Files say Done
	Failed     State = "failed"     // the process has ended with Error
	Cancelled  State = "cancelled"  // the process was told to end at once, and has
)

// Ended reports whether the process said that it has ended.
func (s State) Ended() bool { return s == Done || s == Failed || s == Cancelled }

// Rows counts the rows of a process. Total is what it had to compute when it began: without unreadable rows,
// duplicates and rows settled by an earlier run.
type Rows struct {
	Total   int64 `json:"total"`
	Done    int64 `json:"done"`
	Failed  int64 `json:"failed"`
	Skipped int64 `json:"skipped"`          // settled by an earlier run
	Shared  int64 `json:"shared,omitempty"` // equal to another row of this run
	Bad     int64 `json:"bad,omitempty"`    // cannot be read or used
}

// Batch is rows that a stage works on together.
type Batch struct {
	Stage  string    `json:"stage"`
	Count  int       `json:"count"`           // rows
	Rows   []string  `json:"rows,omitempty"`  // ids of the first ones
	Shape  string    `json:"shape,omitempty"` // such as 64x64x9
	Step   int       `json:"step,omitempty"`  // steps that are done
	Of     int       `json:"of,omitempty"`    // steps in all; 0: the stage has no steps
	Note   string    `json:"note,omitempty"`  // why it does not move
	Device string    `json:"device,omitempty"`
	Since  time.Time `json:"since"` // of the last thing that happened to it: its start, or its last step
	Begun  time.Time `json:"begun"`
}

// DeviceState is what a device of the process does now, and how busy it was.
type DeviceState struct {
	Name  string    `json:"name"`
	Stage string    `json:"stage,omitempty"` // that it works for; "": idle
	Since time.Time `json:"since"`           // it works or is idle since then
	Busy  float64   `json:"busy_s"`          // seconds at work
}

// Rate is what is known of the rows of one shape.
type Rate struct {
	Shape     string  `json:"shape"`
	Total     int64   `json:"total"`
	Settled   int64   `json:"settled"`
	PerMinute float64 `json:"rows_per_minute,omitempty"` // over the time in which such rows were computed
	ETA       float64 `json:"eta_s,omitempty"`           // seconds for what is left of it; 0: not known
}

// StageTotals is what a stage has done in the run so far.
type StageTotals struct {
	Stage   string     `json:"stage"`
	Rows    int64      `json:"rows"`    // that left it
	Batches int64      `json:"batches"` // that left it
	Busy    float64    `json:"busy_s"`  // seconds of batches at work
	Beside  []HostWork `json:"beside,omitempty"`
}

// HostWork is what hosts did for a stage beside the devices: decode, resize.
type HostWork struct {
	Name string  `json:"name"`
	Busy float64 `json:"busy_s"` // seconds, of all threads together
}

// Times between two writes of facts.
const (
	everyDir    = 2 * time.Second
	everyBucket = 15 * time.Second
)

// Every is how often facts are written to a store.
func Every(s store.Store) time.Duration {
	if store.HasScheme(s.URL()) {
		return everyBucket
	}
	return everyDir
}

const factsFile = "facts-"

// WriteFacts replaces the facts of the process that they name. It sets the schema.
func (j Folder) WriteFacts(ctx context.Context, f Facts) error {
	f.Schema = schema
	return j.replace(ctx, factsFile+f.Process+".json", f)
}

// ReadFacts reads the facts of all processes of the job, sorted by their names.
func (j Folder) ReadFacts(ctx context.Context) ([]Facts, error) {
	names, err := store.Names(ctx, j.Store, j.name(factsFile), store.Flat)
	if err != nil {
		return nil, err
	}
	var all []Facts
	for _, name := range names {
		var f Facts
		err := j.read(ctx, name[len(j.name("")):], &f)
		if errors.Is(err, fs.ErrNotExist) { // it was removed meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}
