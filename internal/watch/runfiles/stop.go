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

// How is how a job is asked to end.
type How string

// Ways to end.
const (
	Drain  How = "drain"  // what is in flight is finished
	Cancel How = "cancel" // at once
)

// Stop is the marker that ends a job.
type Stop struct {
	How How       `json:"how"`
	At  time.Time `json:"at"`           // by the clock of whoever asked
	By  string    `json:"by,omitempty"` // who asked, for people
}

// Stop asks all processes of the job to end; a later call replaces an earlier one.
func (j Folder) Stop(ctx context.Context, how How, by string) error {
	if how != Drain && how != Cancel {
		return fmt.Errorf("stop job %s: %q is no way to end it: give %s or %s", j.ID, how, Drain, Cancel)
	}
	return j.replace(ctx, "stop", Stop{how, time.Now().UTC(), by})
}

// Stopped returns the marker, nil where nobody asked.
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

// Process makes a name of a process of any text: letters, digits, dots and dashes.
func Process(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r) || r == '.' || r == '-') {
			return r
		}
		return '-'
	}, text)
	return text[:min(len(text), 100)]
}

// LockName is the name of the lock that shows that a process lives.
func (j Folder) LockName(process string) string { return j.name("lock-" + process) }

// Lock shows to others that the process lives, until release or its death. The store of the job holds one lock at a
// time: a process that also holds the lock of the output opens the store twice, or lets Facts.Lock name that lock.
func (j Folder) Lock(ctx context.Context, process string) (release func(), err error) {
	return j.Store.Lock(ctx, j.LockName(process), "latentbeam job "+j.ID+", process "+process)
}
