package ledger

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

// Key identifies an element: the SHA-256 of everything that its result depends on (design decision D1).
type Key [32]byte

// String returns the key as 64 lower-case hex digits.
func (k Key) String() string { return hex.EncodeToString(k[:]) }

// fingerprint returns the part of a key that the index stores.
func (k Key) fingerprint() uint64 { return binary.BigEndian.Uint64(k[:]) }

// Status is the status of an element.
type Status uint8

const (
	Absent Status = 0 // the key is not known
	Done   Status = 1 // its result is published
	Failed Status = 2 // it is in the failures table
)

// String returns the name of s.
func (s Status) String() string {
	switch s {
	case Absent:
		return "absent"
	case Done:
		return "done"
	case Failed:
		return "failed"
	}
	return fmt.Sprintf("status %d", uint8(s))
}

// Ref is the position of a record. It is valid until the next Compact.
type Ref struct{ packed uint64 }

// A packed position has, from the top: segment number (30 bits), offset in the segment in units of recordAlign (32 bits),
// status (2 bits). Zero is an empty slot of the index.
const (
	segmentBits = 30
	offsetBits  = 32
	segmentsMax = 1 << segmentBits
)

func pack(segment uint32, offset int64, status Status) Ref {
	return Ref{uint64(segment)<<(offsetBits+2) | uint64(offset/recordAlign)<<2 | uint64(status)}
}

func (r Ref) segment() uint32 { return uint32(r.packed >> (offsetBits + 2)) }
func (r Ref) offset() int64   { return int64(r.packed>>2&(1<<offsetBits-1)) * recordAlign }
func (r Ref) status() Status  { return Status(r.packed & 3) }

// supersedes reports whether r replaces old, a record of the same key.
func (r Ref) supersedes(old Ref) bool {
	if r.status() != old.status() {
		return r.status() == Done
	}
	return r.packed > old.packed
}
