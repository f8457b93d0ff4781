package ledger

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"

	"latentbeam/internal/storage/store"
	"latentbeam/schemas/fault"
)

// Ledger is the ledger of one output. Its methods are safe for concurrent use. Several processes may commit to one output. Each
// sees its own records and those that existed when it opened the ledger.
type Ledger struct {
	store  store.Store
	folder string // folder of its segments
	files  *files
	id     segmentID // ID of this process's next segment

	writing sync.RWMutex // held for reading by Commit, for writing by Compact
	mu      sync.RWMutex // guards all fields below, and id
	index   *index
	names   segmentNumbers
	oldest  uint32          // segments with smaller numbers were removed
	missing map[uint32]bool // numbers of segments that could not be published or were removed
	damaged map[uint32]*Damage
	lost    int // records that were found to be damaged after Open
}

// Open reads all segments in the store and builds the index. It uses the intact records of a damaged segment, see Damaged and
// Mend. A segment of a newer version is a usage error. A segment that could not be read is an error that may be gone at the
// next run.
func Open(ctx context.Context, s store.Store) (*Ledger, error) { return OpenIn(ctx, s, folder) }

// OpenIn opens a separate ledger in another folder of the store. The folder's name ends with a slash.
func OpenIn(ctx context.Context, s store.Store, folder string) (*Ledger, error) {
	found, err := store.Names(ctx, s, folder, store.Deep)
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	x, err := newIndex()
	if err != nil {
		return nil, fault.TryAgain(err)
	}
	l := &Ledger{store: s, folder: folder, names: segmentNumbers{folder: folder}, files: newFiles(ctx, s), index: x,
		missing: map[uint32]bool{}, damaged: map[uint32]*Damage{}}
	r := newReader()
	var places []recordPlace
	for _, name := range found {
		if !strings.HasSuffix(name, ".seg") {
			continue
		}
		if err := ctx.Err(); err != nil {
			l.Close()
			return nil, fmt.Errorf("open ledger: %w", err)
		}
		if places, err = l.load(ctx, r, name, places[:0]); err != nil {
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

// load adds the records of one segment to the index. It first collects them in places, because damage may be found later in the
// segment; the records are then read again.
func (l *Ledger) load(ctx context.Context, r *segmentReader, name string, places []recordPlace) ([]recordPlace, error) {
	id, err := parseSegmentName(l.folder, name)
	if err != nil {
		return places, err
	}
	l.id.generation = max(l.id.generation, id.generation)
	number, err := l.names.add(id)
	if err != nil {
		return places, err
	}
	add := func(offset int64, h header) {
		places = append(places, recordPlace{h.key, pack(number, offset, h.status)})
	}
	err = l.inSegment(ctx, r, name, func() error {
		err := r.scan(func(offset int64, h header, _ []byte) error { add(offset, h); return nil })
		var why *DamagedError
		if errors.As(err, &why) {
			places = places[:0]
			l.damaged[number], err = r.salvage(why, add)
		}
		return err
	})
	for i := 0; err == nil && i < len(places); i++ {
		err = l.insert(places[i].key, places[i].ref)
	}
	return places, err
}

func (l *Ledger) insert(key Key, ref Ref) error {
	same := l.sameKey(key)
	return l.index.insert(key.fingerprint(), ref, func(old Ref) (bool, error) {
		is, err := same(old)
		return is, unlessDamage(err) // a record that is damaged now is ignored
	})
}

// sameKey returns a function that compares a key with the complete key of a record, read from its segment.
func (l *Ledger) sameKey(key Key) func(Ref) (bool, error) {
	return func(ref Ref) (same bool, err error) {
		err = l.readHeader(ref, recordHeaderBytes, func(_ *segmentReader, h header) error {
			same = h.key == key
			return nil
		})
		return same, err
	}
}

// readHeader reads the header of a record. window is the number of bytes to read. The caller holds the lock.
func (l *Ledger) readHeader(ref Ref, window int, fn func(*segmentReader, header) error) error {
	return l.inFile(l.names.name(ref.segment()), ref, window, fn)
}

func (l *Ledger) inFile(name string, ref Ref, window int, fn func(*segmentReader, header) error) error {
	return l.files.use(name, func(f store.Reader) error {
		r := &segmentReader{buffer: make([]byte, window)}
		r.reset(name, f, f.Size())
		h, err := r.header(ref.offset())
		if err != nil {
			return err
		}
		return fn(r, h)
	})
}

// Lookup returns the position and the status of the current record for a key, Absent if there is none. It compares the complete
// key, so a hit costs one small read of a segment. A miss costs no read.
func (l *Ledger) Lookup(key Key) (Ref, Status, error) {
	ref, err := l.find(key, l.sameKey(key))
	return ref, ref.status(), err
}

// find returns the current record for a key, zero if there is none. same compares the key with a record's key; it is called
// with the lock held. A record whose header is now damaged is lost.
func (l *Ledger) find(key Key, same func(Ref) (bool, error)) (Ref, error) {
	var lost []Ref
	l.mu.RLock()
	ref, err := l.index.find(key.fingerprint(), func(ref Ref) (bool, error) {
		is, err := same(ref)
		if isDamage(err) {
			lost = append(lost, ref)
		}
		return is, unlessDamage(err)
	})
	l.mu.RUnlock()
	for _, bad := range lost {
		l.lose(key.fingerprint(), bad)
	}
	if err != nil {
		return Ref{}, fatal(fmt.Errorf("look up %v: %w", key, err))
	}
	return ref, nil
}

// Len returns the number of keys.
func (l *Ledger) Len() int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.index.live()
}

// Count returns the number of keys with a status.
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

// Segments returns the number of segment files. If it is large, Compact should be called.
func (l *Ledger) Segments() int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return int(l.names.next-l.oldest) - len(l.missing)
}

// Forget makes Lookup return Absent for every record with a status (such as Failed, for a retry), and returns their number. It
// changes only memory: a record that is not committed again is back at the next Open. But Compact removes forgotten records
// permanently.
func (l *Ledger) Forget(status Status) int {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if status != Done && status != Failed {
		return 0
	}
	return l.index.drop(func(ref Ref) bool { return ref.status() == status })
}

// Close releases memory and files. The ledger must not be used afterwards.
func (l *Ledger) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.files.close()
	l.index.close()
}

// fatal marks an error as fatal, unless a lower package has already marked it as fatal or as a retry.
func fatal(err error) error {
	if fault.ClassOf(err) == fault.ClassFatal || fault.ExitCode(err) == fault.ExitTryAgain {
		return err
	}
	return fault.Fatal(err)
}
