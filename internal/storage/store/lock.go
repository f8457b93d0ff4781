package store

import (
	"fmt"
	"os"
	"strings"
	"time"
	"unicode"
)

// Owner describes the process that holds a lock. The lock records it.
type Owner struct {
	Name  string    `json:"owner"` // what the process is doing, as given to Lock
	PID   int       `json:"pid"`
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
}

// NewOwner describes this process, with the current time.
func NewOwner(name string) Owner {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return Owner{name, os.Getpid(), host, time.Now()}
}

// String formats the owner as "pid 12 on host a since 2026-01-02 15:04:05 (run job.yaml)".
func (o Owner) String() string {
	if o.PID == 0 {
		return "a process that did not say who it is"
	}
	return strings.Map(printable, fmt.Sprintf("pid %d on host %s since %s (%s)",
		o.PID, o.Host, o.Since.Format("2006-01-02 15:04:05"), o.Name))
}

// printable replaces characters that could control a terminal, because everyone who can write to the output can write a lock's
// text.
func printable(r rune) rune {
	if !unicode.IsPrint(r) {
		return unicode.ReplacementChar
	}
	return r
}

// LockedError says that another process holds the lock. A store returns it with fault.TryAgain (exit code 75).
type LockedError struct {
	URL   string // of the store
	Lock  string // name of the lock
	Owner Owner
}

// Error names the store and the owner.
func (e *LockedError) Error() string {
	return fmt.Sprintf("output %s is in use by %v; wait for it or stop it (lock file %s)",
		e.URL, e.Owner, e.Lock)
}
