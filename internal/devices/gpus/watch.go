package gpus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"latentbeam/internal/devices/nvml"
	"latentbeam/schemas/fault"
)

// watch monitors the devices until Close. It records their status and drains devices that fail.
func (p *Pool) watch() {
	if p.host == nil {
		p.stop = func() {}
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		if err := p.host.Watch(ctx, p.handle); err != nil {
			slog.Debug("GPUs report no events", "error", err) // status checks continue
		}
	})
	began := make([]nvml.ECC, len(p.devices))
	for i, d := range p.devices {
		if s, err := p.host.Status(d.UUID); err == nil {
			began[i] = s.ECC
		}
	}
	all.Go(func() {
		tick := time.NewTicker(p.o.Every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				p.inspect(began)
			case <-ctx.Done():
				return
			}
		}
	})
	p.stop = func() { cancel(); all.Wait() }
}

// inspect records the status of the devices. began holds their memory errors when the pool was opened.
func (p *Pool) inspect(began []nvml.ECC) {
	for i, d := range p.devices {
		p.mu.Lock()
		gone := d.drained != ""
		p.mu.Unlock()
		if gone {
			continue
		}
		s, err := p.host.Status(d.UUID)
		switch {
		case errors.Is(err, nvml.ErrLost):
			p.handle(nvml.Event{UUID: d.UUID, Kind: nvml.Lost})
			continue
		case err != nil:
			continue // a busy driver is no fault of the device
		case s.ECC.Uncorrected > began[i].Uncorrected:
			p.handle(nvml.Event{UUID: d.UUID, Kind: nvml.Uncorrected})
		case s.ECC.RemapFailed:
			p.drain(i, s.ECC.Sick())
		}
		p.mu.Lock()
		d.log.add(s, p.o.Every)
		p.mu.Unlock()
	}
}

// handle acts on an event. It only records an application's fault, ends the lease after a fault that spoiled the running
// batch, and drains the device after a fault of the device.
func (p *Pool) handle(e nvml.Event) {
	for i, d := range p.devices {
		if d.UUID != e.UUID {
			continue
		}
		p.mu.Lock()
		d.log.event(e.String())
		p.mu.Unlock()
		switch e.Action() {
		case nvml.Drain:
			p.drain(i, e.String())
		case nvml.Restart:
			p.mu.Lock()
			if d.lease != nil {
				d.lease.end(fault.Retry(fmt.Errorf("%s: %s", d.Short(), e)))
			}
			p.mu.Unlock()
		}
	}
}
