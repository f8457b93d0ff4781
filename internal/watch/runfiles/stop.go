package runfiles

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"
	"unicode"
)

// How is the way in which a job should end.
type How string

// Ways to end.
const (
	Drain  How = "drain"  // after the batches in progress
	Cancel How = "cancel" // at once
)

// Stop is the stop file of a job.
type Stop struct {
	How How       `json:"how"`
	At  time.Time `json:"at"`           // time by the clock of the process that wrote the file
	By  string    `json:"by,omitempty"` // who wrote the file, for people
}

// Stop writes the stop file, which tells all processes of the job to end. It replaces an earlier one.
func (j Folder) Stop(ctx context.Context, how How, by string) error {
	if how != Drain && how != Cancel {
		return fmt.Errorf("stop job %s: %q is no way to end it: give %s or %s", j.ID, how, Drain, Cancel)
	}
	return j.replace(ctx, "stop", Stop{how, time.Now().UTC(), by})
}

// Stopped returns the stop file; nil: there is none.
func (j Folder) Stopped(ctx context.Context) (*Stop, error) {
	var s Stop
	err := j.read(ctx, "stop", &s)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &s, nil
}

// Process converts a text to a valid name of a process: it replaces everything except letters, digits, dots and dashes by
// dashes, and limits the length to 100.
func Process(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r) || r == '.' || r == '-') {
			return r
		}
		return '-'
	}, text)
	return text[:min(len(text), 100)]
}

// LockName returns the name of the lock that a process holds while it is alive.
func (j Folder) LockName(process string) string { return j.name("lock-" + process) }

// Lock acquires the lock of a process. The process holds it until it calls release or dies. A store can hold only one lock at a
// time. So a process that also holds the lock of the output opens the store twice, or sets Facts.Lock to the output's lock.
func (j Folder) Lock(ctx context.Context, process string) (release func(), err error) {
	return j.Store.Lock(ctx, j.LockName(process), "latentbeam job "+j.ID+", process "+process)
}
