package gputest

import (
	"context"
	"fmt"
	"sync"

	"latentbeam/internal/devices/nvml"
)

// Host is a fake machine. It is safe for concurrent use.
type Host struct {
	mu       sync.Mutex
	survey   nvml.Survey
	status   map[string]nvml.DeviceStatus
	lost     map[string]bool
	watchers map[chan nvml.Event]bool
	missed   []nvml.Event // events from before the first Watch
}

// newHost returns a machine with these devices, all idle and healthy; link returns the link of two devices.
func newHost(devices []nvml.Device, link func(i, k int) nvml.Link) *Host {
	h := &Host{status: map[string]nvml.DeviceStatus{}, lost: map[string]bool{}, watchers: map[chan nvml.Event]bool{}}
	h.survey = nvml.Survey{Devices: devices,
		Driver: nvml.Driver{Version: "550.54.15", CUDA: "12.4", NVML: "12.550.54.15"}}
	h.survey.Links = make([][]nvml.Link, len(devices))
	for i, d := range devices {
		h.survey.Links[i] = make([]nvml.Link, len(devices))
		for k := range devices {
			if i != k {
				h.survey.Links[i][k] = link(i, k)
			}
		}
		reserved := d.Memory / 128
		h.status[d.UUID] = nvml.DeviceStatus{Reserved: reserved, Free: d.Memory - reserved, Temperature: 34, Power: 52,
			PowerLimit: 400, Throttle: nvml.Idle, ECC: nvml.ECC{Unanswered: !d.ECC}}
	}
	return h
}

// UUID returns that of device i of a machine, such as "GPU-00000003-…".
func UUID(i int) string { return fmt.Sprintf("GPU-%08x-1111-2222-3333-444444444444", i) }

// Survey implements nvml.Host.
func (h *Host) Survey() (nvml.Survey, error) { return h.survey, nil }

// Status implements nvml.Host.
func (h *Host) Status(uuid string) (nvml.DeviceStatus, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s, ok := h.status[uuid]
	switch {
	case !ok:
		return s, fmt.Errorf("no GPU %s", uuid)
	case h.lost[uuid]:
		return nvml.DeviceStatus{}, nvml.ErrLost
	}
	return s, nil
}

// Watch implements nvml.Host.
func (h *Host) Watch(ctx context.Context, report func(nvml.Event)) error {
	events := make(chan nvml.Event, 16)
	h.mu.Lock()
	h.watchers[events] = true
	missed := h.missed
	h.missed = nil
	h.mu.Unlock()
	for _, e := range missed {
		report(e)
	}
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.watchers, events)
	}()
	for {
		select {
		case e := <-events:
			report(e)
		case <-ctx.Done():
			return nil
		}
	}
}

// Close implements nvml.Host.
func (h *Host) Close() {}

// Report reports an event of device i. If nobody watches yet, the first Watch gets the event, so that a test need not
// wait for a goroutine to start.
func (h *Host) Report(i int, kind nvml.EventKind, code uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := nvml.Event{UUID: h.survey.Devices[i].UUID, Kind: kind, Code: code}
	if len(h.watchers) == 0 {
		h.missed = append(h.missed, e)
	}
	for w := range h.watchers {
		w <- e
	}
}

// Lose makes device i fall off the bus: XID 79, and no answer from then on.
func (h *Host) Lose(i int) {
	h.mu.Lock()
	h.lost[h.survey.Devices[i].UUID] = true
	h.mu.Unlock()
	h.Report(i, nvml.XID, 79)
}

// LoseQuietly makes device i stop answering, without an event.
func (h *Host) LoseQuietly(i int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lost[h.survey.Devices[i].UUID] = true
}

// Set changes the status of device i.
func (h *Host) Set(i int, change func(s *nvml.DeviceStatus)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.status[h.survey.Devices[i].UUID]
	change(&s)
	h.status[h.survey.Devices[i].UUID] = s
}
