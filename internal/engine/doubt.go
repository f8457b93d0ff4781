package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"latentbeam/internal/lend"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// A result that holds a NaN is the row's fault, or that of a device which is sick. Another device tells: the element is
// computed once more, on others, and fails only when they say the same. Of a set one device alone is asked, for any of
// its devices may be the one. A device that is wrong again is drained. The log names the devices and the row does not:
// outputs must not tell where they were made.

// doubtsAllowed is how many rows whose result was finite elsewhere hardware may have: one may be chance, a bit that
// turned over. The next one takes it out of the run, for a device that computes wrongly does not always give a NaN.
const doubtsAllowed = 1

// doubts counts them by hardware.
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

// trial says how a batch is to be tried.
type trial struct {
	cap   int    // bounds the devices; 0: not
	avoid []int  // devices that are not to be had
	first *doubt // what was not finite before; nil: nothing
}

// doubt is a result that was not finite.
type doubt struct {
	devices []int
	err     error
	well    []int // devices that gave a finite one since; nil: none
}

// examine looks at what a batch has given on these devices.
func (f *Station) examine(live []*stages.Element, before []stages.Element, devices []int, t trial) error {
	for i, e := range live {
		if e.Failed != nil {
			continue
		}
		why := e.NotFinite(f.step.Gives)
		if why == "" {
			if t.first != nil {
				t.first.well = devices
			}
			continue
		}
		restore(live[i:i+1], before[i:i+1])
		if err := f.doubt(e, fault.NotFinite(errors.New(why)), devices, t); err != nil {
			return err
		}
	}
	return nil
}

// doubt settles an element whose result on these devices was not finite: elsewhere, or as a failure.
func (f *Station) doubt(e *stages.Element, err error, devices []int, t trial) error {
	if t.first != nil {
		if here, there := f.labels(t.first.devices), f.labels(devices); here != there {
			slog.Warn("a result is not finite, on another device neither: the row fails", "stage", f.step.Name,
				"device", here, "again_on", there, "error", err)
		}
	} else if again := f.elsewhere(&e.Row, err, devices, t); again.first != nil {
		return f.settleEach([]*stages.Element{e}, again)
	}
	e.Fail(f.step.Name, err)
	return nil
}

// settleEach settles elements alone. Where all give a finite result now that together gave none, it tells.
func (f *Station) settleEach(live []*stages.Element, again trial) error {
	failed := false
	for _, e := range live {
		if err := f.settle([]*stages.Element{e}, again); err != nil {
			return err
		}
		failed = failed || e.Failed != nil
	}
	if again.first != nil && again.first.well != nil && !failed {
		f.cleared(again.first)
	}
	return nil
}

// elsewhere is how an element like row is tried whose result on these devices was not finite: on as few as it needs, of
// other hardware if there is any, else on fewer of them. Where that is the same again, only alone.
func (f *Station) elsewhere(row *schemas.PromptRow, err error, devices []int, t trial) trial {
	need := max(f.step.Capabilities().Shards(), f.engine.learned.devices(f.step, row))
	if least, fixed := f.engine.least(f.step, row); !fixed {
		need = max(need, least)
	}
	again := trial{cap: need, first: t.first}
	if t.first != nil {
		again.avoid = t.avoid
		return again
	}
	var same []int
	others := 0
	for d, rate := range ratesOf(f.engine.Pool) {
		switch known := slices.ContainsFunc(devices, func(o int) bool { return f.label(o) == f.label(d) }); {
		case known:
			same = append(same, d)
		case rate > 0:
			others++
		}
	}
	switch {
	case others >= need:
		again.avoid = same
	case len(devices) > need:
		again.avoid = devices[:len(devices)-need]
	default:
		return again
	}
	again.first = &doubt{devices: devices, err: err}
	slog.Debug("a result is not finite, it is computed once more", "stage", f.step.Name, "on", f.labels(devices),
		"error", err)
	return again
}

// cleared tells that devices gave a finite result where others did not.
func (f *Station) cleared(first *doubt) {
	here, there := f.labels(first.devices), f.labels(first.well)
	slog.Warn("a result was not finite on one device and is on another: the first may be sick, or a kernel is wrong",
		"stage", f.step.Name, "device", here, "well_on", there, "error", first.err,
		"costs", "the row was computed twice", "more", "latentbeam doctor")
	hw := f.engine.Pool.Capabilities().Hardware
	if hw == nil {
		return
	}
	for _, d := range first.devices {
		hw.Note(d, fmt.Sprintf("%s: a result was not finite that is on %s: %v", f.step.Name, there, first.err))
	}
	label := hw.Label(first.devices[0])
	if label == here && f.engine.doubts.add(label) > doubtsAllowed { // of a set it may be any
		f.drain(hw, label)
	}
}

// drain takes the devices of one label out, as long as others are left.
func (f *Station) drain(hw *lend.Hardware, label string) {
	var sick []int
	others := false
	for d, rate := range f.engine.Pool.Speeds() {
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
func (f *Station) label(device int) string {
	if hw := f.engine.Pool.Capabilities().Hardware; hw != nil {
		return hw.Label(device)
	}
	return ""
}

// labels names the hardware of devices, each once.
func (f *Station) labels(devices []int) string {
	names := map[string]bool{}
	for _, d := range devices {
		names[f.label(d)] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(names)), ", ")
}

// without returns the view without some devices, or as it is where no other is left.
func (v view) without(devices []int) view {
	rates := slices.Clone(v.rates)
	for _, d := range devices {
		rates[d] = 0
	}
	if slices.Max(rates) > 0 {
		v.rates = rates
	}
	return v
}
