package ledger

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"

	"latentbeam/internal/store"
	"latentbeam/schemas/fault"
)

// Ledger is the ledger of one output directory. Its methods are safe for concurrent use. Several
// processes may commit to one directory; each sees what was there when it opened the ledger, and
// its own records.
type Ledger struct {
	store store.Store
	files *files
	id    segmentID // of this process's next segment

	writing sync.RWMutex // held for reading by Commit, for writing by Compact
	mu      sync.RWMutex // guards all below, and id
	index   *index
	names   names
	oldest  uint32          // segments below are removed
	missing map[uint32]bool // numbers given to segments that could not be published
}

// Open reads all segments in the store and builds the index. Damage is a *DamagedError, fatal.
func Open(ctx context.Context, s store.Store) (*Ledger, error) {
	found, err := store.Names(ctx, s, folder, store.Deep)
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	x, err := newIndex()
	if err != nil {
		return nil, fault.TryAgain(err)
	}
	l := &Ledger{store: s, files: newFiles(ctx, s), index: x, missing: map[uint32]bool{}}
	r := newReader()
	for _, name := range found {
		if !strings.HasSuffix(name, ".seg") {
			continue
		}
		if err := ctx.Err(); err != nil {
			l.Close()
			return nil, fmt.Errorf("open ledger: %w", err)
		}
		if err := l.load(ctx, r, name); err != nil {
			l.Close()
			return nil, fatal(fmt.Errorf("open ledger: %w", err))
		}
	}
	var random [8]byte
	rand.Read(random[:])
	l.id.generation++
	l.id.process = binary.BigEndian.Uint64(random[:])
	return l, nil
}

// load puts the records of one segment into the index.
func (l *Ledger) load(ctx context.Context, r *reader, name string) error {
	id, err := parseSegmentName(name)
	if err != nil {
		return err
	}
	l.id.generation = max(l.id.generation, id.generation)
	number, err := l.names.add(id)
	if err != nil {
		return err
	}
	return l.scan(ctx, r, name, func(offset int64, h header, _ []byte) error {
		return l.insert(h.key, pack(number, offset, h.status))
	})
}

// scan reads a segment from start to end.
func (l *Ledger) scan(ctx context.Context, r *reader, name string, fn func(int64, header, []byte) error) error {
	f, err := l.store.Open(ctx, name)
	if err != nil {
		return fmt.Errorf("open ledger segment %s: %w", name, err)
	}
	defer f.Close()
	r.reset(name, f, f.Size())
	return r.scan(fn)
}

func (l *Ledger) insert(key Key, ref Ref) error {
	return l.index.insert(key.fingerprint(), ref, l.sameKey(key))
}

// sameKey compares a key with the whole key of a record, read from its segment.
func (l *Ledger) sameKey(key Key) func(Ref) (bool, error) {
	return func(ref Ref) (same bool, err error) {
		err = l.at(ref, recordHeaderBytes, func(_ *reader, h header) error {
			same = h.key == key
			return nil
		})
		return same, err
	}
}

// at reads the header of a record, with a window as long as the caller needs; the lock is held.
func (l *Ledger) at(ref Ref, window int, fn func(*reader, header) error) error {
	return l.inFile(l.names.name(ref.segment()), ref, window, fn)
}

func (l *Ledger) inFile(name string, ref Ref, window int, fn func(*reader, header) error) error {
	return l.files.use(name, func(f store.Reader) error {
		r := &reader{buffer: make([]byte, window)}
		r.reset(name, f, f.Size())
		h, err := r.header(ref.offset())
		if err != nil {
			return err
		}
		return fn(r, h)
	})
}

// Lookup finds the record that counts for a key: where it is and its status, Absent where there
// is none. The whole key is compared, so a hit costs one small read of a segment; a miss costs none.
func (l *Ledger) Lookup(key Key) (Ref, Status, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	ref, err := l.index.find(key.fingerprint(), l.sameKey(key))
	if err != nil {
		return Ref{}, Absent, fatal(fmt.Errorf("look up %v: %w", key, err))
	}
	return ref, ref.status(), nil
}

// Len is the number of keys the ledger knows.
func (l *Ledger) Len() int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.index.live()
}

// Count is the number of keys of one status.
func (l *Ledger) Count(status Status) int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	switch status {
	case Done:
		return l.index.done
	case Failed:
		return l.index.failed
	}
	return 0
}

// Segments is the number of segment files; a large one asks for Compact.
func (l *Ledger) Segments() int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return int(l.names.next-l.oldest) - len(l.missing)
}

// Forget makes Lookup answer Absent for every record of the status (Failed, for a retry) and
// returns how many there were. It changes memory only: what is not committed again is back at the
// next Open, unless Compact came between, for which a forgotten record does not count.
func (l *Ledger) Forget(status Status) int {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if status != Done && status != Failed {
		return 0
	}
	return l.index.forget(status)
}

// Close releases memory and files. The ledger must not be used afterwards.
func (l *Ledger) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.files.close()
	l.index.close()
}

// fatal marks an error as the end of the job, unless the store says that it may pass.
func fatal(err error) error {
	if fault.ExitCode(err) == fault.ExitTryAgain {
		return err
	}
	return fault.Fatal(err)
}
