//go:build cgo && linux && cuda

package nvml

import (
	"context"
	"fmt"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

const (
	// waitMillis is how long one call waits for an event, and so how late Watch may end.
	waitMillis = 500
	// wholeDevice in an event means that the event names no instance.
	wholeDevice = 0xFFFFFFFF
)

// Watch implements Host.
func (h *host) Watch(ctx context.Context, report func(Event)) error {
	survey, err := h.Survey()
	if err != nil {
		return err
	}
	set, ret := h.lib.EventSetCreate()
	if ret != nvml.SUCCESS {
		return fmt.Errorf("watch GPUs: %s", ret.String())
	}
	defer set.Free()
	registered := 0
	for _, d := range survey.Devices {
		dev := h.handles[d.UUID]
		if dev == nil || d.MIG() {
			continue
		}
		kinds, ret := dev.GetSupportedEventTypes()
		kinds &= nvml.EventTypeXidCriticalError | nvml.EventTypeDoubleBitEccError
		if ret == nvml.SUCCESS && kinds != 0 && dev.RegisterEvents(kinds, set) == nvml.SUCCESS {
			registered++
		}
	}
	if registered == 0 {
		return fmt.Errorf("watch GPUs: the driver reports events of none")
	}
	gone := map[string]bool{}
	for ctx.Err() == nil {
		data, ret := set.Wait(waitMillis)
		switch {
		case ret == nvml.SUCCESS:
			for _, e := range events(survey, data) {
				report(e)
			}
		case ret == nvml.ERROR_TIMEOUT:
		case lost(ret): // some device is lost
			h.reportLost(survey, gone, report)
			pause(ctx) // the call may fail at once from now on
		default:
			return fmt.Errorf("watch GPUs: %s", ret.String())
		}
	}
	return nil
}

// pause waits for waitMillis.
func pause(ctx context.Context) {
	select {
	case <-time.After(waitMillis * time.Millisecond):
	case <-ctx.Done():
	}
}

// events translates an event of NVML. An event of a divided GPU belongs to the instance that it names, or to all instances.
func events(survey Survey, data nvml.EventData) (out []Event) {
	e := Event{Kind: XID, Code: data.EventData}
	if data.EventType&nvml.EventTypeDoubleBitEccError != 0 {
		e = Event{Kind: Uncorrected}
	}
	uuid, ret := data.Device.GetUUID()
	for _, d := range survey.Devices {
		mine := ret != nvml.SUCCESS || d.UUID == uuid // all devices, if the driver does not name one
		if d.Parent == uuid && d.MIG() {
			mine = data.GpuInstanceId == wholeDevice ||
				uint32(d.Instance[0]) == data.GpuInstanceId && uint32(d.Instance[1]) == data.ComputeInstanceId
		}
		if mine {
			e.UUID = d.UUID
			out = append(out, e)
		}
	}
	return out
}

// reportLost reports each device that does not answer, once.
func (h *host) reportLost(survey Survey, gone map[string]bool, report func(Event)) {
	for _, d := range survey.Devices {
		dev := h.handles[d.UUID]
		if dev == nil || gone[d.UUID] {
			continue
		}
		if _, ret := dev.GetMemoryInfo(); lost(ret) {
			gone[d.UUID] = true
			report(Event{UUID: d.UUID, Kind: Lost})
		}
	}
}
