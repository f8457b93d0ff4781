package ledger

import (
	"fmt"
	"math/bits"
	"unsafe"

	"latentbeam/internal/system"
)

// slot is one place of the hash table: 16 bytes without pointers for the garbage collector.
type slot struct {
	fingerprint uint64 // first eight bytes of the key
	ref         Ref    // zero: empty slot
}

// gone is the ref of a slot whose record was dropped. Probing continues past it.
var gone = Ref{3}

// When the table is 5/6 full, it grows to 3/2 of its content. So it needs 19 to 24 bytes for each record, also while it grows.
const (
	discardSlots  = 1 << 16 // released at once while the table grows: one MiB
	slotsMin      = 4096
	slotBytes     = int(unsafe.Sizeof(slot{}))
	fillNum       = 5
	fillDen       = 6
	slotsPerLive  = 3
	slotsPerLiveD = 2
)

// index maps keys to their current records, with open addressing and linear probing. It stores only fingerprints; the caller
// decides whether two keys with the same fingerprint are equal.
type index struct {
	slots   []slot
	used    int // slots that are not empty, with dropped ones
	done    int
	failed  int
	release func() error
}

func newIndex() (*index, error) {
	x := &index{}
	return x, x.rehash(slotsMin)
}

// home returns the slot at which probing for a fingerprint starts.
func (x *index) home(fingerprint uint64) int {
	h := fingerprint // splitmix64's finalizer, because keys may not be evenly distributed
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	h ^= h >> 31
	at, _ := bits.Mul64(h, uint64(len(x.slots)))
	return int(at)
}

// probe visits the slots for a fingerprint, from its home to the first empty one, until stop returns true.
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

// find returns the record of a key, zero if there is none. same compares the key of a record.
func (x *index) find(fingerprint uint64, same func(Ref) (bool, error)) (Ref, error) {
	s, err := x.probe(fingerprint, func(s *slot) (bool, error) { return same(s.ref) })
	if err != nil {
		return Ref{}, err
	}
	return s.ref, nil
}

// insert adds a record, or replaces the record of the same key if the new one supersedes it.
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

// move changes the position of the record at old, or drops it if ref is gone. It reports whether old was in the table.
func (x *index) move(fingerprint uint64, old, ref Ref) bool {
	s, _ := x.probe(fingerprint, func(s *slot) (bool, error) { return s.ref == old, nil })
	if s.ref == (Ref{}) {
		return false
	}
	x.set(s, slot{fingerprint, ref})
	return true
}

// isCurrent reports whether the record at ref is the current one for its key.
func (x *index) isCurrent(fingerprint uint64, ref Ref) bool {
	s, _ := x.probe(fingerprint, func(s *slot) (bool, error) { return s.ref == ref, nil })
	return s.ref == ref
}

// drop drops the records that which selects and returns their number.
func (x *index) drop(which func(Ref) bool) (n int) {
	for i := range x.slots {
		if s := &x.slots[i]; s.ref != (Ref{}) && s.ref != gone && which(s.ref) {
			x.set(s, slot{s.fingerprint, gone})
			n++
		}
	}
	return n
}

// set changes a slot and updates the counts.
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

// rehash moves the table to at least n slots, without dropped records. Both tables have the same order of fingerprints. So the
// new one is filled from its start while the old one is released from its start, and together they never need much more memory
// than the larger one.
func (x *index) rehash(n int) error {
	n = max(n, slotsMin)
	// Outside of the Go heap the collector does not scan the slots, and the heap does not grow in proportion to them.
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

// close releases the memory.
func (x *index) close() {
	if x.release != nil {
		_ = x.release()
	}
	x.slots, x.release = nil, nil
}
