package gpus

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"latentbeam/kernels"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// LeaseSet waits for n free devices, or for all if the pool has fewer, and leases the ones with the fastest
// links.
func (p *Pool) LeaseSet(ctx context.Context, n int) (*stages.Set, func(ok bool), error) {
	return p.acquire(ctx, func() ([]int, error) {
		n := min(n, p.size())
		if n == 0 {
			return nil, fault.TryAgain(errors.New("every GPU of the job has fallen ill; run it again to go on"))
		}
		free := p.free()
		if len(free) < n {
			return nil, nil
		}
		return p.closest(free, n), nil
	})
}

// LeaseThese waits until the devices with these numbers are free.
func (p *Pool) LeaseThese(ctx context.Context, devices []int) (*stages.Set, func(ok bool), error) {
	for i, d := range devices {
		if d < 0 || d >= len(p.devices) || slices.Contains(devices[:i], d) {
			return nil, nil, fmt.Errorf("lease devices %v of %d", devices, len(p.devices))
		}
	}
	return p.acquire(ctx, func() ([]int, error) {
		for _, n := range devices {
			switch d := p.devices[n]; {
			case d.drained != "":
				return nil, fault.DeviceLost(fmt.Errorf("%s: %s", d.Short(), d.drained))
			case d.lease != nil:
				return nil, nil
			}
		}
		return devices, nil
	})
}

// free returns the numbers of the devices that can be lent now.
func (p *Pool) free() (out []int) {
	for i, d := range p.devices {
		if d.drained == "" && d.lease == nil {
			out = append(out, i)
		}
	}
	return out
}

// Closest returns n of the free devices with the fastest links.
func (p *Pool) Closest(free []int, n int) []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closest(free, n)
}

// closest chooses n of the devices by their links.
func (p *Pool) closest(free []int, n int) (out []int) {
	var indexes []int
	for _, i := range free {
		indexes = append(indexes, p.devices[i].index)
	}
	chosen := p.survey.Choose(indexes, n)
	for _, i := range free {
		if slices.Contains(chosen, p.devices[i].index) {
			out = append(out, i)
		}
	}
	return out
}

// Label names a device for people.
func (p *Pool) Label(device int) string {
	d := p.devices[device]
	return fmt.Sprintf("%s (%s)", d.Short(), d.Name)
}

// Record records an event of a device.
func (p *Pool) Record(device int, event string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.devices[device].log.event(event)
}

// Drain removes a device from the pool.
func (p *Pool) Drain(device int, why string) bool {
	p.drain(device, why)
	return true
}

// acquire waits until choose finds devices, and leases them.
func (p *Pool) acquire(ctx context.Context, choose func() ([]int, error)) (*stages.Set, func(ok bool), error) {
	for {
		p.mu.Lock()
		chosen, err := choose()
		if len(chosen) > 0 {
			set, l := p.lease(chosen)
			p.mu.Unlock()
			return set, func(ok bool) { p.release(l, ok) }, nil
		}
		changed := p.changed
		p.mu.Unlock()
		if err != nil {
			return nil, nil, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}

// lease makes a set of devices.
func (p *Pool) lease(chosen []int) (*stages.Set, *lease) {
	l := &lease{devices: slices.Clone(chosen)}
	set := &stages.Set{}
	set.Health, l.end = context.WithCancelCause(context.Background())
	var devices []kernels.Backend
	for _, i := range chosen {
		d := p.devices[i]
		d.lease = l
		d.log.Leases++
		devices = append(devices, d.be)
		set.Speeds = append(set.Speeds, p.speed(d))
	}
	set.Devices = slices.Clone(devices) // the set's user may replace them by wrappers
	if len(devices) > 1 {
		set.Connect = func(context.Context) ([]kernels.Transport, error) { return p.maker.Connect(devices) }
	}
	return set, l
}

// release ends a lease. After a failure a device gets a new backend, because backends retain their first
// error and a panic leaves scopes open. If a device cannot be opened again, it is drained.
func (p *Pool) release(l *lease, ok bool) {
	for _, i := range l.devices {
		p.mu.Lock()
		d := p.devices[i]
		be, gone := d.be, d.drained != ""
		p.mu.Unlock()
		if gone || ok && be.Wait() == nil {
			continue
		}
		be, err := p.maker.Open(d.UUID)
		p.mu.Lock()
		if err == nil {
			d.be = be
		}
		p.mu.Unlock()
		if err != nil {
			p.drain(i, fmt.Sprintf("it cannot be opened again: %v", err))
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, i := range l.devices {
		p.devices[i].lease = nil
	}
	l.end(nil)
	p.announce()
}

// announce wakes all goroutines that wait for a device.
func (p *Pool) announce() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// drain removes a device from the pool and cancels its current lease.
func (p *Pool) drain(number int, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.devices[number]
	if d.drained != "" {
		return
	}
	d.drained = why
	if d.lease != nil {
		d.lease.end(fault.DeviceLost(fmt.Errorf("%s: %s", d.Short(), why)))
	}
	p.announce()
}
