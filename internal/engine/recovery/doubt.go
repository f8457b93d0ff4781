package recovery

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"latentbeam/internal/devices"
	"latentbeam/internal/engine/schedule"
	"latentbeam/schemas"
)

// Either the row or a faulty device causes a NaN in a result. So the element is computed once more on other devices. It
// fails only if they give a NaN too. If a set of devices gave the NaN, the second attempt uses one device, because any
// device of the set may be faulty. A device that is wrong again is drained. The log names the devices. The failed row does
// not, because outputs must not depend on where they were computed.

// doubtsAllowed is how often hardware may give a NaN for a row that gets a finite result elsewhere. Once may be chance,
// such as a flipped bit. The next time the hardware is drained, because a device that computes wrongly does not
// always give a NaN.
const doubtsAllowed = 1

// doubts counts NaNs that other devices did not confirm, by hardware.
type doubts struct {
	mu   sync.Mutex
	rows map[string]int
}

// add counts a NaN and returns the new count.
func (d *doubts) add(label string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.rows == nil {
		d.rows = map[string]int{}
	}
	d.rows[label]++
	return d.rows[label]
}

// doubt is a result that was not finite, while its elements are tried elsewhere.
type doubt struct {
	devices []int
	err     error
	open    int   // elements that are not settled yet
	failed  bool  // one of them is a failure
	healthy []int // devices that gave a finite result since; nil: none
}

// elsewhere plans the second attempt of a row whose result on these devices was not finite. It uses as few devices as the
// row needs, on other hardware if possible, else a part of the same devices. If only the same devices remain, the row is
// tried alone on them, without a doubt.
func (b *Tries) elsewhere(row *schemas.PromptRow, err error, devices []int) Try {
	need := b.schedule.Needed(b.stage, row)
	again := Try{Ask: schedule.Ask{Cap: need}}
	var same []int
	others := 0
	for d, rate := range b.schedule.Rates() {
		switch known := slices.ContainsFunc(devices, func(o int) bool { return b.label(o) == b.label(d) }); {
		case known:
			same = append(same, d)
		case rate > 0:
			others++
		}
	}
	switch {
	case others >= need:
		again.Avoid = same
	case len(devices) > need:
		again.Avoid = devices[:len(devices)-need]
	default:
		return again
	}
	again.doubt = &doubt{devices: devices, err: err}
	slog.Debug("a result is not finite, it is computed once more", "stage", b.step.Name, "on", b.labels(devices),
		"error", err)
	return again
}

// cleared reports that other devices gave a finite result after the first devices had not.
func (b *Tries) cleared(first *doubt) {
	here, there := b.labels(first.devices), b.labels(first.healthy)
	slog.Warn("a result was not finite on one device and is on another: the first may be sick, or a kernel is wrong",
		"stage", b.step.Name, "device", here, "well_on", there, "error", first.err,
		"costs", "the row was computed twice", "more", "latentbeam doctor")
	hw := b.schedule.Pool.Capabilities().Hardware
	if hw == nil {
		return
	}
	for _, d := range first.devices {
		hw.Note(d, fmt.Sprintf("%s: a result was not finite that is on %s: %v", b.step.Name, there, first.err))
	}
	label := hw.Label(first.devices[0])
	if label == here && b.doubts.add(label) > doubtsAllowed { // in a set any device may be faulty
		b.drain(hw, label)
	}
}

// drain removes the devices of one label from the pool, unless no other devices are left.
func (b *Tries) drain(hw *devices.Hardware, label string) {
	var sick []int
	others := false
	for d, rate := range b.schedule.Pool.Speeds() {
		switch {
		case hw.Label(d) == label:
			sick = append(sick, d)
		case rate > 0:
			others = true
		}
	}
	for _, d := range sick {
		if others && hw.Drain(d, "results were not finite that are on other devices") {
			slog.Warn("a device is lent no more: results were not finite that are on others", "device", label)
		}
	}
}

// label names the hardware of a device; "": the pool does not distinguish hardware.
func (b *Tries) label(device int) string {
	if hw := b.schedule.Pool.Capabilities().Hardware; hw != nil {
		return hw.Label(device)
	}
	return ""
}

// labels names the hardware of devices, each once.
func (b *Tries) labels(devices []int) string {
	names := map[string]bool{}
	for _, d := range devices {
		names[b.label(d)] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(names)), ", ")
}
