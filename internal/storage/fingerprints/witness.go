package fingerprints

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"sync"

	"latentbeam/internal/storage/store"
)

// FileState is the state of a table, a page or another file of the report when its content was correct.
type FileState struct {
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	Mark   string `json:"mark"` // mark when the digest was correct
}

// RowState is the state of a ledger record's video and poster when they were correct.
type RowState struct {
	Mark   uint64 // hash of the marks of both files; 0: not checked
	Poster uint64 // first bytes of the poster's SHA-256; 0: not known
}

// keyedRow is a RowState with the first eight bytes of its key.
type keyedRow struct {
	key uint64
	RowState
}

// Witness remembers the states of files and rows. It is safe for concurrent use. A row takes 24 bytes. The zero value is empty.
type Witness struct {
	mu      sync.Mutex
	files   map[string]FileState
	before  map[string]FileState // states when the run started
	rows    []keyedRow           // loaded rows, sorted
	fresh   map[uint64]RowState
	changed bool
}

// File returns what is remembered about a file.
func (w *Witness) File(name string) (FileState, bool) {
	if w == nil {
		return FileState{}, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	f, found := w.files[name]
	return f, found
}

// SetFile remembers the state of a file.
func (w *Witness) SetFile(name string, f FileState) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.files == nil {
		w.files = map[string]FileState{}
	}
	w.changed = w.changed || w.files[name] != f
	w.files[name] = f
}

// Files returns the names of all known files, sorted.
func (w *Witness) Files() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.files))
}

// Row returns what is remembered about a row.
func (w *Witness) Row(key [32]byte) (RowState, bool) {
	if w == nil {
		return RowState{}, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	k := fingerprint(key)
	if r, found := w.fresh[k]; found {
		return r, r != RowState{}
	}
	i, found := slices.BinarySearchFunc(w.rows, k, func(r keyedRow, k uint64) int { return cmp.Compare(r.key, k) })
	if !found {
		return RowState{}, false
	}
	return w.rows[i].RowState, true
}

// SetRow remembers the state of a row; the zero RowState forgets it.
func (w *Witness) SetRow(key [32]byte, r RowState) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fresh == nil {
		w.fresh = map[uint64]RowState{}
	}
	w.fresh[fingerprint(key)] = r
	w.changed = true
}

// Retain says that the run did not change a file.
func (w *Witness) Retain(name string) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	f, known := w.before[name]
	if known && w.files == nil {
		w.files = map[string]FileState{}
	}
	if known {
		w.files[name] = f
	}
}

// Invalidate forgets the files of the report, also in the store, because a run will write new ones and may be killed before it
// can remember them.
func (w *Witness) Invalidate(ctx context.Context, s store.Store, part string) error {
	w.mu.Lock()
	w.before, w.files, w.changed = w.files, nil, true
	w.mu.Unlock()
	if err := s.Remove(ctx, folder+part+filesName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func fingerprint(key [32]byte) uint64 { return binary.BigEndian.Uint64(key[:]) }

// HashMarks combines the marks of several files.
func HashMarks(marks ...string) uint64 {
	h := sha256.New()
	for _, m := range marks {
		h.Write(append([]byte(m), 0))
	}
	return binary.BigEndian.Uint64(h.Sum(nil)) | 1 // never 0
}

// HashSum returns the part of a SHA-256 that a RowState stores.
func HashSum(sum [sha256.Size]byte) uint64 { return binary.BigEndian.Uint64(sum[:]) | 1 }
