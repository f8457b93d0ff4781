package nvml

import (
	"fmt"
)

// EventKind is the kind of an event.
type EventKind string

// The kinds.
const (
	XID         EventKind = "xid"  // the driver reported error number Code
	Uncorrected EventKind = "ecc"  // memory errors that could not be corrected
	Lost        EventKind = "lost" // the device no longer answers
)

// Event is something that happened to a device.
type Event struct {
	UUID string    `json:"uuid"`
	Kind EventKind `json:"kind"`
	Code uint64    `json:"code,omitempty"` // XID
}

// Action returns what to do about the event.
func (e Event) Action() Action {
	if e.Kind == XID {
		return lookup(e.Code).action
	}
	return Drain
}

// String describes the event: "XID 79 (GPU has fallen off the bus)".
func (e Event) String() string {
	switch e.Kind {
	case XID:
		return fmt.Sprintf("XID %d (%s)", e.Code, lookup(e.Code).text)
	case Uncorrected:
		return "uncorrectable ECC errors"
	}
	return "the GPU does not answer any more"
}
