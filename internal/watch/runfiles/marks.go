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

// begun is begun-<process>.json: the rows that a process works on, written before it begins them. After the death of
// the process it becomes death-<process>.json.
type begun struct {
	Host  string   `json:"host"`
	PID   int      `json:"pid"`
	Start string   `json:"start"` // of the process, by its system: a PID is given again
	Rows  []string `json:"rows"`  // their keys
}

// The files of marks.
const (
	begunFile = "begun-"
	deathFile = "death-"
)

// Marks note the rows at work in a process, to find rows that kill their process.
type Marks struct {
	job     Folder
	process string
	me      begun

	mu   sync.Mutex
	rows map[string]bool
}

// Marks returns the marks of this process, none yet.
func (j Folder) Marks(process string) *Marks {
	return &Marks{job: j, process: process, me: thisProcess(), rows: map[string]bool{}}
}

// thisProcess says which process this is.
func thisProcess() begun {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return begun{Host: host, PID: os.Getpid(), Start: startOf(os.Getpid())}
}

// startOf is when a process of this host began, "" where that is not known.
func startOf(pid int) string {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	const start = 19 // of the fields behind the name
	if len(fields) <= start {
		return ""
	}
	return string(fields[start])
}

// dead reports whether the process is one of this host that is there no more.
func (b begun) dead(here begun) bool {
	if b.Host != here.Host || b.PID == here.PID && b.Start == here.Start {
		return false
	}
	p, err := os.FindProcess(b.PID)
	if err != nil || errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone) {
		return true
	}
	return b.Start != "" && startOf(b.PID) != b.Start
}

// Start notes rows before they are begun. Where they are alone, nothing else is at work in the process.
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

func (m *Marks) write(ctx context.Context) error {
	b := m.me
	b.Rows = slices.Sorted(maps.Keys(m.rows))
	return m.job.replace(ctx, begunFile+m.process+".json", b)
}

// Done takes rows off that have come to an end. They are off in the file at the next Begin.
func (m *Marks) Done(keys []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range keys {
		delete(m.rows, k)
	}
}

// Rest says that the process has nothing to do for now: its death would have nothing to do with a row.
func (m *Marks) Rest(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.rows)
	if err := m.job.Store.Remove(ctx, m.job.name(begunFile+m.process+".json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Bury makes a death of the marks of every process of this host that is gone. A process calls it before it begins; the
// deaths of processes on other hosts are noted there.
func (m *Marks) Bury(ctx context.Context) error {
	names, err := store.Names(ctx, m.job.Store, m.job.name(begunFile), store.Flat)
	if err != nil {
		return err
	}
	for _, name := range names {
		file := name[len(m.job.name("")):]
		var b begun
		if err := m.job.read(ctx, file, &b); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return err
		}
		if !b.dead(m.me) {
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

// Suspect is a row with which processes have died.
type Suspect struct {
	Among  int // rows that were at work in the death with the fewest
	Alone  int // deaths in which no other row was at work
	Deaths int
}

// deadly is how many deaths make a row a failure.
const deadly = 3

// Guilty reports whether the row is the cause: the third death, of which it was alone at two at least.
func (s Suspect) Guilty() bool { return s.Deaths >= deadly && s.Alone >= deadly-1 }

// Suspects returns the rows with which processes of the job have died, by their keys. known keeps what was read.
func (j Folder) Suspects(ctx context.Context, known map[string][]string) (map[string]Suspect, error) {
	names, err := store.Names(ctx, j.Store, j.name(deathFile), store.Flat)
	if err != nil {
		return nil, err
	}
	out := map[string]Suspect{}
	for _, name := range names {
		rows, found := known[name]
		if !found {
			var b begun
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
