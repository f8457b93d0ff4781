package runfiles

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"latentbeam/internal/storage/store"
)

// schema is the version of the files. A newer program may add fields without a new version. It increases the version when a field
// changes its meaning.
const schema = 1

// Facts is facts-<process>.json: the progress of one process of a job.
type Facts struct {
	Schema  int       `json:"schema"` // 1
	Process string    `json:"process"`
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	At      time.Time `json:"at"`      // time of the write, by the clock of the process
	Started time.Time `json:"started"` // start of the process's work
	Every   float64   `json:"every_s"` // seconds between two writes
	Lock    string    `json:"lock"`    // name of the lock that the process holds while it is alive

	Away    bool `json:"away,omitempty"`    // other processes of the job compute the rows of this process
	Workers int  `json:"workers,omitempty"` // number of workers seen so far, if Away

	State State   `json:"state"`
	Error string  `json:"error,omitempty"` // why the process ended early
	Rows  Rows    `json:"rows"`
	First string  `json:"first_failure,omitempty"` // reason of the first failure in this run
	ETA   float64 `json:"eta_s,omitempty"`         // remaining seconds; 0: not known

	Batches []Batch       `json:"batches"` // batches on devices or waiting for devices
	Devices []DeviceState `json:"devices"`
	Rates   []Rate        `json:"rates"`  // one entry per shape
	Stages  []StageTotals `json:"stages"` // in the order of the job
}

// State is what a process is doing, or how it ended.
type State string

// States of a process.
const (
	Preparing State = "preparing" // plans and loads weights
	Running   State = "running"   // computes rows
	Stopping  State = "stopping"  // finishes the batches in progress
	Writing   State = "writing"   // writes tables and pages

	Cancelling State = "cancelling" // abandons the batches in progress
	Done       State = "done"       // has ended; rows may be unsettled, see Rows
	Stopped    State = "stopped"    // was stopped and has ended, with unsettled rows; only shown, files contain Done
	Failed     State = "failed"     // has ended with Error
	Cancelled  State = "cancelled"  // was cancelled and has ended
)

// Ended reports whether the state says that the process has ended.
func (s State) Ended() bool { return s == Done || s == Failed || s == Cancelled }

// Rows counts the rows of a process. Total is the number of rows that it had to compute at its start, without unusable rows,
// duplicates and rows that an earlier run settled.
type Rows struct {
	Total   int64 `json:"total"`
	Done    int64 `json:"done"`
	Failed  int64 `json:"failed"`
	Skipped int64 `json:"skipped"`          // settled by an earlier run
	Shared  int64 `json:"shared,omitempty"` // equal to another row of this run
	Bad     int64 `json:"bad,omitempty"`    // cannot be read or are invalid
}

// Batch is a batch of rows in a stage.
type Batch struct {
	Stage  string    `json:"stage"`
	Count  int       `json:"count"`            // number of rows
	Rows   []string  `json:"rows,omitempty"`   // ids of the first rows
	Shape  string    `json:"shape,omitempty"`  // such as 64x64x9
	Step   int       `json:"step,omitempty"`   // number of finished steps
	Of     int       `json:"of,omitempty"`     // number of all steps; 0: the stage has no steps
	Note   string    `json:"note,omitempty"`   // why it makes no progress
	Device string    `json:"device,omitempty"` // names of its devices; "": it waits
	Since  time.Time `json:"since"`            // time of its last step; before that, its start
	Begun  time.Time `json:"begun"`            // start of waiting or working
}

// DeviceState is the state of a device and its busy time.
type DeviceState struct {
	Name  string    `json:"name"`
	Stage string    `json:"stage,omitempty"` // stage for which it works; "": idle
	Since time.Time `json:"since"`           // start of the current work or idle time
	Busy  float64   `json:"busy_s"`          // seconds of work
}

// Rate is the progress of the rows of one shape.
type Rate struct {
	Shape     string  `json:"shape"`
	Total     int64   `json:"total"`
	Settled   int64   `json:"settled"`
	PerMinute float64 `json:"rows_per_minute,omitempty"` // during the time in which such rows were computed
	ETA       float64 `json:"eta_s,omitempty"`           // seconds for the remaining rows; 0: not known
}

// StageTotals counts the work of a stage in the run so far.
type StageTotals struct {
	Stage   string     `json:"stage"`
	Rows    int64      `json:"rows"`             // rows that have finished the stage
	Batches int64      `json:"batches"`          // batches that have finished the stage
	Busy    float64    `json:"busy_s"`           // device seconds of its batches
	Beside  []HostWork `json:"beside,omitempty"` // work of hosts
}

// HostWork is work that hosts did for a stage while devices computed, such as decoding and resizing.
type HostWork struct {
	Name string  `json:"name"`
	Busy float64 `json:"busy_s"` // seconds, summed over all threads
}

// Intervals between two writes of facts.
const (
	everyDir    = 2 * time.Second
	everyBucket = 15 * time.Second
)

// Every returns the interval at which facts are written to a store.
func Every(s store.Store) time.Duration {
	if store.HasScheme(s.URL()) {
		return everyBucket
	}
	return everyDir
}

const factsFile = "facts-"

// WriteFacts writes the facts of the process f.Process. It sets f.Schema.
func (j Folder) WriteFacts(ctx context.Context, f Facts) error {
	f.Schema = schema
	return j.replace(ctx, factsFile+f.Process+".json", f)
}

// ReadFacts reads the facts of all processes of the job, sorted by the names of the processes.
func (j Folder) ReadFacts(ctx context.Context) ([]Facts, error) {
	names, err := store.Names(ctx, j.Store, j.name(factsFile), store.Flat)
	if err != nil {
		return nil, err
	}
	var all []Facts
	for _, name := range names {
		var f Facts
		err := j.read(ctx, name[len(j.name("")):], &f)
		if errors.Is(err, fs.ErrNotExist) { // removed meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}
