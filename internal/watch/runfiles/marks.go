package runfiles

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"latentbeam/internal/storage/store"
)

// startedRows is begun-<process>.json: the rows on which a process works. The process writes it before it starts them. If the
// process dies, another process renames the file to death-<process>.json.
type startedRows struct {
	Host  string   `json:"host"`
	PID   int      `json:"pid"`
	Start string   `json:"start"` // start time of the process, because the system reuses PIDs
	Rows  []string `json:"rows"`  // keys of the rows
}

// Prefixes of the files of Marks.
const (
	begunFile = "begun-"
	deathFile = "death-"
)

// Marks records the rows on which a process works. It serves to find rows that kill their process.
type Marks struct {
	job     Folder
	process string
	self    startedRows

	mu   sync.Mutex
	rows map[string]bool
}

// Marks returns the marks of this process, without rows.
func (j Folder) Marks(process string) *Marks {
	return &Marks{job: j, process: process, self: thisProcess(), rows: map[string]bool{}}
}

// thisProcess returns the identity of this process.
func thisProcess() startedRows {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return startedRows{Host: host, PID: os.Getpid(), Start: startOf(os.Getpid())}
}

// startOf returns the start time of a process of this host; "": not known.
func startOf(pid int) string {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	const start = 19 // index of the start time among the fields after the name
	if len(fields) <= start {
		return ""
	}
	return string(fields[start])
}

// dead reports whether the process ran on this host and does not exist any more.
func (b startedRows) dead(here startedRows) bool {
	if b.Host != here.Host || b.PID == here.PID && b.Start == here.Start {
		return false
	}
	p, err := os.FindProcess(b.PID)
	if err != nil || errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone) {
		return true
	}
	return b.Start != "" && startOf(b.PID) != b.Start
}

// Start records rows before they are started. If alone is true, the process works on no other rows.
func (m *Marks) Start(ctx context.Context, keys []string, alone bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if alone {
		clear(m.rows)
	}
	for _, k := range keys {
		m.rows[k] = true
	}
	return m.write(ctx)
}

// write writes the file. The caller holds m.mu.
func (m *Marks) write(ctx context.Context) error {
	b := m.self
	b.Rows = slices.Sorted(maps.Keys(m.rows))
	return m.job.replace(ctx, begunFile+m.process+".json", b)
}

// Done removes rows that have ended. The next Start writes the change to the file.
func (m *Marks) Done(keys []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range keys {
		delete(m.rows, k)
	}
}

// Clear removes all rows and the file. An idle process calls it, because its death would not be caused by a row.
func (m *Marks) Clear(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.rows)
	if err := m.job.Store.Remove(ctx, m.job.name(begunFile+m.process+".json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// RecordDeaths renames the files of dead processes of this host to death-<process>.json. A process calls it before it starts rows.
// Processes on other hosts do the same for their hosts.
func (m *Marks) RecordDeaths(ctx context.Context) error {
	names, err := store.Names(ctx, m.job.Store, m.job.name(begunFile), store.Flat)
	if err != nil {
		return err
	}
	for _, name := range names {
		file := name[len(m.job.name("")):]
		var b startedRows
		if err := m.job.read(ctx, file, &b); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return err
		}
		if !b.dead(m.self) {
			continue
		}
		data, err := json.Marshal(b)
		if err != nil {
			return err
		}
		death := m.job.name(deathFile + strings.TrimPrefix(file, begunFile))
		if err := m.job.Store.Put(ctx, store.Object{Name: death, Data: data}); err != nil {
			return err
		}
		if err := m.job.Store.Remove(ctx, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Suspect is a row on which processes worked when they died.
type Suspect struct {
	Among  int // smallest number of rows in progress at one of the deaths
	Alone  int // number of deaths with no other row in progress
	Deaths int
}

// maxDeaths is the number of deaths after which a row counts as the cause.
const maxDeaths = 3

// Guilty reports whether the row is the cause of the deaths: there were at least three, and in at least two of them no other row
// was in progress.
func (s Suspect) Guilty() bool { return s.Deaths >= maxDeaths && s.Alone >= maxDeaths-1 }

// Suspects returns the suspects of the job by key. known caches the files that were read, for the next call.
func (j Folder) Suspects(ctx context.Context, known map[string][]string) (map[string]Suspect, error) {
	names, err := store.Names(ctx, j.Store, j.name(deathFile), store.Flat)
	if err != nil {
		return nil, err
	}
	out := map[string]Suspect{}
	for _, name := range names {
		rows, found := known[name]
		if !found {
			var b startedRows
			if err := j.read(ctx, name[len(j.name("")):], &b); err != nil {
				return nil, err
			}
			rows = b.Rows
			known[name] = rows
		}
		for _, key := range rows {
			s := out[key]
			if s.Deaths++; s.Among == 0 || len(rows) < s.Among {
				s.Among = len(rows)
			}
			if len(rows) == 1 {
				s.Alone++
			}
			out[key] = s
		}
	}
	return out, nil
}
