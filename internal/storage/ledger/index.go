package ledger

import (
	"fmt"
	"math/bits"
	"unsafe"

	"latentbeam/internal/system"
)

// slot is one place of the hash table: 16 bytes that the garbage collector never looks at.
type slot struct {
	fingerprint uint64 // first eight bytes of the key
	ref         Ref    // zero: empty
}

// gone is the ref of a slot whose record was dropped. Probing goes on over it.
var gone = Ref{3}

// The table is filled to 5/6 and then grows to 9/5 of what it holds, by half. So it takes 19 to 29
// bytes a record, while it grows too.
const (
	discardSlots  = 1 << 16 // given back at once while it grows: a mebibyte
	slotsMin      = 4096
	slotBytes     = int(unsafe.Sizeof(slot{}))
	fillNum       = 5
	fillDen       = 6
	slotsPerLive  = 9
	slotsPerLiveD = 5
)

// index maps keys to the records that count, by open addressing with linear probing. It holds
// fingerprints only; whether two keys of one fingerprint are equal is the caller's to say.
type index struct {
	slots   []slot
	used    int // slots that are not empty, dropped ones included
	done    int
	failed  int
	release func() error
}

func newIndex() (*index, error) {
	x := &index{}
	return x, x.rehash(slotsMin)
}

// home is the slot where probing for a fingerprint starts.
func (x *index) home(fingerprint uint64) int {
	h := fingerprint // splitmix64's finalizer: keys need not be evenly spread
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	h ^= h >> 31
	at, _ := bits.Mul64(h, uint64(len(x.slots)))
	return int(at)
}

// probe visits the slots of a fingerprint from its home to the first empty one, until stop.
func (x *index) probe(fingerprint uint64, stop func(*slot) (bool, error)) (*slot, error) {
	for i := x.home(fingerprint); ; i++ {
		if i == len(x.slots) {
			i = 0
		}
		s := &x.slots[i]
		if s.ref == (Ref{}) {
			return s, nil
		}
		if s.fingerprint == fingerprint && s.ref != gone {
			if ok, err := stop(s); ok || err != nil {
				return s, err
			}
		}
	}
}

// find returns the record of a key, zero where there is none. same compares the key of a record.
func (x *index) find(fingerprint uint64, same func(Ref) (bool, error)) (Ref, error) {
	s, err := x.probe(fingerprint, func(s *slot) (bool, error) { return same(s.ref) })
	if err != nil {
		return Ref{}, err
	}
	return s.ref, nil
}

// insert adds a record or lets it supersede the one of the same key.
func (x *index) insert(fingerprint uint64, ref Ref, same func(Ref) (bool, error)) error {
	if (x.used+1)*fillDen > len(x.slots)*fillNum {
		if err := x.rehash(x.live() * slotsPerLive / slotsPerLiveD); err != nil {
			return err
		}
	}
	s, err := x.probe(fingerprint, func(s *slot) (bool, error) { return same(s.ref) })
	if err != nil {
		return err
	}
	if s.ref == (Ref{}) {
		x.used++
	} else if !ref.supersedes(s.ref) {
		return nil
	}
	x.set(s, slot{fingerprint, ref})
	return nil
}

// move gives the record at old a new place, or drops it where the new ref is gone. It reports
// whether old was in the table.
func (x *index) move(fingerprint uint64, old, ref Ref) bool {
	s, _ := x.probe(fingerprint, func(s *slot) (bool, error) { return s.ref == old, nil })
	if s.ref == (Ref{}) {
		return false
	}
	x.set(s, slot{fingerprint, ref})
	return true
}

// isCurrent reports whether the record at ref is the one that counts for its key.
func (x *index) isCurrent(fingerprint uint64, ref Ref) bool {
	s, _ := x.probe(fingerprint, func(s *slot) (bool, error) { return s.ref == ref, nil })
	return s.ref == ref
}

// drop drops the records that which picks and returns how many there were.
func (x *index) drop(which func(Ref) bool) (n int) {
	for i := range x.slots {
		if s := &x.slots[i]; s.ref != (Ref{}) && s.ref != gone && which(s.ref) {
			x.set(s, slot{s.fingerprint, gone})
			n++
		}
	}
	return n
}

// set changes a slot and the counts.
func (x *index) set(s *slot, to slot) {
	x.count(s.ref, -1)
	x.count(to.ref, +1)
	*s = to
}

func (x *index) count(ref Ref, by int) {
	switch ref.status() {
	case Done:
		x.done += by
	case Failed:
		x.failed += by
	}
}

func (x *index) live() int { return x.done + x.failed }

// rehash moves the table to at least n slots and leaves dropped records behind. The order of fingerprints
// in the two tables is the same, so the new one fills from its start while the old one is given back from
// its start: both together never take much more than the larger.
func (x *index) rehash(n int) error {
	n = max(n, slotsMin)
	// Outside the Go heap the collector neither scans the slots nor lets the heap grow in proportion to them.
	mem, release, err := system.MapScratch(n * slotBytes)
	if err != nil {
		return fmt.Errorf("allocate the ledger's index: %w", err)
	}
	slots := unsafe.Slice((*slot)(unsafe.Pointer(&mem[0])), n)
	old, oldRelease := x.slots, x.release
	x.slots, x.release, x.used = slots, release, 0
	for len(old) > 0 {
		part := old[:min(len(old), discardSlots)]
		for _, s := range part {
			if s.ref == (Ref{}) || s.ref == gone {
				continue
			}
			empty, _ := x.probe(s.fingerprint, func(*slot) (bool, error) { return false, nil })
			*empty = s
			x.used++
		}
		system.ForgetPages(unsafe.Slice((*byte)(unsafe.Pointer(&part[0])), len(part)*slotBytes))
		old = old[len(part):]
	}
	if oldRelease != nil {
		_ = oldRelease()
	}
	return nil
}

// close gives the memory back.
func (x *index) close() {
	if x.release != nil {
		_ = x.release()
	}
	x.slots, x.release = nil, nil
}
