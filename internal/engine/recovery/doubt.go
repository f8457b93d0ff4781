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

// A NaN in a result is the fault of the row or of a sick device. So the element is computed once more on other devices. It
// fails only if they give a NaN too. Where a set of devices gave the NaN, the second attempt takes one device, because any
// of the set may be the sick one. A device that is wrong again is drained. The log names the devices. The failed row does
// not, because outputs must not tell where they were made.

// doubtsAllowed is how often hardware may give a NaN for a row that gets a finite result elsewhere. Once may be chance: a
// bit that turned over. The next time takes the hardware out of the run, because a device that computes wrongly does not
// always give a NaN.
const doubtsAllowed = 1

// doubts counts such NaNs by hardware.
type doubts struct {
	mu   sync.Mutex
	rows map[string]int
}

// add counts one and returns how many there are.
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
	well    []int // devices that gave a finite result since; nil: none
}

// elsewhere plans the second attempt of a row whose result on these devices was not finite. It takes as few devices as the
// row needs: other hardware if there is any, else fewer of the same. If these are the same devices again, the row is only
// tried alone.
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

// cleared notes that these devices gave a finite result for an element after others had not.
func (b *Tries) cleared(first *doubt) {
	here, there := b.labels(first.devices), b.labels(first.well)
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
	if label == here && b.doubts.add(label) > doubtsAllowed { // of a set it may be any
		b.drain(hw, label)
	}
}

// drain takes the devices of one label out, as long as others are left.
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

// label names the hardware of a device, "" where the pool does not tell it from others.
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
