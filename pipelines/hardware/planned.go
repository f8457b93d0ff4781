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

// plannedPool is a pool of devices for planning. It has the properties that decide how a run executes, and leases no device.
type plannedPool struct {
	devices []layout.DeviceModel
	class   string
	given   int64 // bytes for batches on each device; 0: the memory that the weights leave free

	mu      sync.Mutex
	weights int64
}

var errPlanned = errors.New("the job is only planned for these devices")

// LeaseSet returns an error.
func (m *plannedPool) LeaseSet(context.Context, int) (*stages.Set, func(bool), error) {
	return nil, nil, errPlanned
}

// LeaseThese returns an error.
func (m *plannedPool) LeaseThese(context.Context, []int) (*stages.Set, func(bool), error) {
	return nil, nil, errPlanned
}

// Size returns the number of devices.
func (m *plannedPool) Size() int { return len(m.devices) }

// Capabilities returns what the pool can do: it is for planning, and knows the layout and the links of its devices.
func (m *plannedPool) Capabilities() devices.PoolCapabilities {
	return devices.PoolCapabilities{Planned: true, Layout: m.Layout, Closest: m.Closest, Weights: m.Weights}
}

// Layout returns the devices in the form that the cost model uses.
func (m *plannedPool) Layout() []layout.DeviceModel { return m.devices }

// Weights sets how many bytes of weights each device would have.
func (m *plannedPool) Weights(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.weights = bytes
}

// Memory returns how much memory a batch may use on one device.
func (m *plannedPool) Memory() cost.Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.given > 0 {
		return cost.Memory{Target: m.given / 2, Limit: m.given}
	}
	return layout.Offer(m.devices, m.weights)
}

// Class returns the numeric class that results would have.
func (m *plannedPool) Class() string { return m.class }

// Changed returns nil, because the devices never change.
func (m *plannedPool) Changed() <-chan struct{} { return nil }

// Speeds returns the relative speeds of the devices.
func (m *plannedPool) Speeds() (out []float64) {
	for _, d := range m.devices {
		out = append(out, d.Rate)
	}
	return out
}

// Closest returns n free devices of one island, or else of one host. Among several, it chooses the one with the fewest free
// devices. If no island or host has n free devices, it returns the first n.
func (m *plannedPool) Closest(free []int, n int) []int {
	for _, group := range []func(d layout.DeviceModel) int{
		func(d layout.DeviceModel) int { return d.Island }, func(d layout.DeviceModel) int { return d.Node }} {
		if best := m.fullest(free, n, group); best != nil {
			return best
		}
	}
	return slices.Clone(free[:n])
}

// fullest returns n free devices of one group. It chooses the group with the fewest free devices; nil: no group has n.
func (m *plannedPool) fullest(free []int, n int, group func(d layout.DeviceModel) int) []int {
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
