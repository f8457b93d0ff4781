package devices

import (
	"slices"

	"latentbeam/internal/devices/nvml"

	"latentbeam/stages/layout"
)

// processDevices describes the devices of one process; the first has number first.
type processDevices struct {
	first, count int
	survey       *nvml.Survey         // nil: links unknown
	layout       []layout.DeviceModel // nil: unknown
}

// placeOf describes the devices of a pool, as far as the pool knows them.
func placeOf(pool Pool) (p processDevices) {
	can := pool.Capabilities()
	if can.Survey != nil {
		s := can.Survey()
		p.survey = &s
	}
	if can.Layout != nil {
		p.layout = can.Layout()
	}
	return p
}

// places returns this process and the workers, in the order of their numbers.
func (f *Fleet) places() []processDevices {
	local := placeOf(f.local)
	local.count = f.here
	out := []processDevices{local}
	for _, h := range f.hosts {
		out = append(out, processDevices{h.first, len(h.speeds), h.survey, h.layout})
	}
	return out
}

// Closest returns n free devices with the fastest links, in ascending order. It prefers one process that has n free devices;
// ties go to this process. If no process has n, it takes the devices of this process first, then of the processes with the most
// free devices, because all hosts share one network.
func (f *Fleet) Closest(free []int, n int) []int {
	var best []int
	fastest := 0
	places := f.places()
	own := make([][]int, len(places))
	for i, p := range places {
		own[i] = p.among(free)
		if len(own[i]) < n {
			continue
		}
		set := p.closest(own[i], n)
		if links := p.slowest(set); best == nil || links > fastest {
			best, fastest = set, links
		}
	}
	if best != nil {
		return best
	}
	order := make([]int, len(places))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order[1:], func(a, b int) int { return len(own[b]) - len(own[a]) })
	for _, i := range order {
		take := min(len(own[i]), n-len(best))
		best = append(best, places[i].closest(own[i], take)...)
	}
	slices.Sort(best)
	return best
}

// among returns the devices that belong to this process.
func (p processDevices) among(devices []int) (out []int) {
	for _, d := range devices {
		if d >= p.first && d < p.first+p.count {
			out = append(out, d)
		}
	}
	slices.Sort(out)
	return out
}

// closest returns n of the devices, which all belong to p.
func (p processDevices) closest(devices []int, n int) []int {
	if p.survey == nil || n == 0 {
		return slices.Clone(devices[:n])
	}
	out := p.survey.Choose(p.shifted(devices, -p.first), n)
	return p.shifted(out, p.first)
}

// slowest returns a score of the slowest link in a set; see nvml.Survey.Slowest.
func (p processDevices) slowest(set []int) int {
	if p.survey == nil {
		return 0
	}
	return p.survey.Slowest(p.shifted(set, -p.first))
}

func (p processDevices) shifted(devices []int, by int) []int {
	out := make([]int, len(devices))
	for i, d := range devices {
		out[i] = d + by
	}
	return out
}

// Layout returns the devices in the form of the cost model, each with its host. Devices of which only the speed is known
// count as CPU workers.
func (f *Fleet) Layout() []layout.DeviceModel {
	speeds, most := f.Speeds(), 0.0
	for _, s := range speeds {
		most = max(most, s)
	}
	for i := range speeds {
		if most > 0 {
			speeds[i] /= most
		}
	}
	all := layout.Workers(speeds)
	for _, p := range f.places() {
		if len(p.layout) == p.count {
			copy(all[p.first:], p.layout)
		}
	}
	f.AssignHosts(all)
	return all
}

// LayoutKnown reports whether more than the speed is known of every device.
func (f *Fleet) LayoutKnown() bool {
	return !slices.ContainsFunc(f.places(), func(p processDevices) bool { return len(p.layout) != p.count })
}

// AssignHosts sets the host of each device, in the fleet's order, and makes islands distinct between hosts.
func (f *Fleet) AssignHosts(devices []layout.DeviceModel) {
	islands := 0
	for node, p := range f.places() {
		next := islands
		for i := p.first; i < p.first+p.count && i < len(devices); i++ {
			d := &devices[i]
			d.Node, d.Island = node, max(0, d.Island)+islands
			next = max(next, d.Island+1)
		}
		islands = next
	}
}

// Capabilities covers the devices of all processes. It has no Weights: each process accounts for its own weights.
func (f *Fleet) Capabilities() PoolCapabilities {
	return PoolCapabilities{Layout: f.Layout, Closest: f.Closest,
		Hardware: &Hardware{Label: f.Label, Note: f.Record, Drain: f.Drain}}
}

// Label names the hardware of a device. All CPU devices of a host have one label.
func (f *Fleet) Label(device int) string {
	if hw := f.local.Capabilities().Hardware; hw != nil && device < f.here {
		return hw.Label(device)
	}
	for _, h := range f.hosts {
		if i := device - h.first; i >= 0 && i < len(h.labels) {
			return h.addr + " " + h.labels[i]
		} else if i >= 0 && i < len(h.speeds) {
			return h.addr
		}
	}
	return "this host"
}

// Record records an event of a device of this process. It ignores events of workers' devices.
func (f *Fleet) Record(device int, event string) {
	if hw := f.local.Capabilities().Hardware; hw != nil && device < f.here {
		hw.Note(device, event)
	}
}

// Drain removes a device from the fleet, also a device of a worker.
func (f *Fleet) Drain(device int, why string) bool {
	if device < f.here {
		hw := f.local.Capabilities().Hardware
		return hw != nil && hw.Drain(device, why)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.speeds[device] = 0
	f.notifyWaiters()
	return true
}
