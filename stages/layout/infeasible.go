package layout

import (
	"fmt"
	"strings"

	"latentbeam/stages/cost"
	"latentbeam/stages/sequence"
)

// Infeasible is the error of a search without a result. It names the device, the missing memory, and a size that would fit.
type Infeasible struct {
	Reason   string // set if the reason is not memory
	Width    int    // devices in the set that came closest to fitting
	Elements int
	Device   DeviceModel
	Index    int // index of the device
	Need     MemoryUse
	Fix      string
}

// Error says which device lacks how much.
func (e *Infeasible) Error() string {
	if e.Reason != "" {
		return e.Reason
	}
	return fmt.Sprintf("one element on a set of %d does not fit device %d (%s) in %s: it needs %s of weights, %s of "+
		"activations and %s of exchange buffers, together %s, and has %s", e.Width, e.Index, e.Device.Name, e.Need.Stage,
		cost.Bytes(e.Need.Weights), cost.Bytes(e.Need.Activations), cost.Bytes(e.Need.Exchange),
		cost.Bytes(e.Device.bytesOn(e.Need)), cost.Bytes(e.Device.room()))
}

func (e *Infeasible) short() string {
	if e.Reason != "" {
		return e.Reason
	}
	return fmt.Sprintf("device %d (%s) needs %s and has %s", e.Index, e.Device.Name,
		cost.Bytes(e.Device.bytesOn(e.Need)), cost.Bytes(e.Device.room()))
}

// maxSuggested limits the sets that are tried for a suggestion.
const maxSuggested = 64

// fix adds what would fit: more devices of the same kind, or larger ones.
func (q *Query) fix(e *Infeasible) *Infeasible {
	if e == nil || e.Reason != "" {
		return e
	}
	var advice []string
	if n := q.enough(e.Device); n > 0 {
		advice = append(advice, fmt.Sprintf("%d devices like %s in one set", n, e.Device.Name))
	}
	advice = append(advice, fmt.Sprintf("devices with %s each", cost.Bytes(e.Device.enough(e.Need))))
	if e.Device.Mapped || e.Need.Weights < e.Device.room() {
		advice = append(advice, "fewer frames or a smaller size")
	} else {
		advice = append(advice, "weights of a narrower type")
	}
	if !e.Device.Mapped && len(q.Stages) > 1 {
		advice = append(advice, "the stages as jobs of their own, with embeddings or latents written between them")
	}
	e.Fix = "what would fit: " + strings.Join(advice, "; ")
	return e
}

// enough returns the nominal memory of a device like d that has room for m.
func (d DeviceModel) enough(m MemoryUse) int64 {
	if d.Mapped {
		return d.bytesOn(m)
	}
	return int64(float64(m.Total()) / (1 - reserve) / usable)
}

// enough returns the smallest set of devices like d that fits one element, or 0.
func (q *Query) enough(d DeviceModel) int {
	if q.split() == nil {
		return 0
	}
	for n := 1; n <= maxSuggested; n++ {
		more := Query{Stages: q.Stages}
		for range n {
			more.Devices = append(more.Devices, d)
		}
		if _, why, err := more.set(sequence.Range{Hi: n}, 1); err == nil && why == nil {
			return n
		}
	}
	return 0
}
