package hardware

import (
	"context"
	"errors"
	"slices"
	"sync"

	"latentbeam/internal/devices"
	"latentbeam/stages"
	"latentbeam/stages/cost"
	"latentbeam/stages/layout"
)

// machine is a pool of devices that are only planned for: it has all that a run is decided by and lends nothing.
type machine struct {
	devices []layout.DeviceModel
	class   string
	given   int64 // for batches, on each; 0: what weights leave

	mu      sync.Mutex
	weights int64
}

var errPlanned = errors.New("the job is only planned for these devices")

// LeaseSet lends nothing.
func (m *machine) LeaseSet(context.Context, int) (*stages.Set, func(bool), error) {
	return nil, nil, errPlanned
}

// LeaseThese lends nothing.
func (m *machine) LeaseThese(context.Context, []int) (*stages.Set, func(bool), error) {
	return nil, nil, errPlanned
}

// Size returns how many devices there are.
func (m *machine) Size() int { return len(m.devices) }

// Capabilities says that the devices are known, and how they are linked.
func (m *machine) Capabilities() devices.PoolCapabilities {
	return devices.PoolCapabilities{Planned: true, Layout: m.Layout, Closest: m.Closest, Weights: m.Weights}
}

// Layout returns them as the cost model knows them.
func (m *machine) Layout() []layout.DeviceModel { return m.devices }

// Weights says how many bytes of weights would be on every device.
func (m *machine) Weights(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.weights = bytes
}

// Memory returns what a batch may use on one of them.
func (m *machine) Memory() cost.Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.given > 0 {
		return cost.Memory{Target: m.given / 2, Limit: m.given}
	}
	return layout.Offer(m.devices, m.weights)
}

// Class returns the numeric class that results would have.
func (m *machine) Class() string { return m.class }

// Changed returns nil: devices neither come nor go.
func (m *machine) Changed() <-chan struct{} { return nil }

// Speeds returns the relative speeds.
func (m *machine) Speeds() (out []float64) {
	for _, d := range m.devices {
		out = append(out, d.Rate)
	}
	return out
}

// Closest returns n of the free devices, all of one island if it can be, else of one host, of the one that they fill
// best.
func (m *machine) Closest(free []int, n int) []int {
	for _, group := range []func(d layout.DeviceModel) int{
		func(d layout.DeviceModel) int { return d.Island }, func(d layout.DeviceModel) int { return d.Node }} {
		if best := m.fullest(free, n, group); best != nil {
			return best
		}
	}
	return slices.Clone(free[:n])
}

// fullest returns n of the free devices, all of one group, of the smallest that has as many; nil where none has.
func (m *machine) fullest(free []int, n int, group func(d layout.DeviceModel) int) []int {
	groups := map[int][]int{}
	for _, d := range free {
		g := group(m.devices[d])
		groups[g] = append(groups[g], d)
	}
	var best []int
	for _, d := range free {
		own := groups[group(m.devices[d])]
		if len(own) >= n && (best == nil || len(own) < len(best) || len(own) == len(best) && own[0] < best[0]) {
			best = own
		}
	}
	if best == nil {
		return nil
	}
	return slices.Clone(best[:n])
}
