package devices

import (
	"slices"

	"latentbeam/internal/devices/nvml"

	"latentbeam/stages/layout"
)

// processDevices is the devices of one process, numbered from first on.
type processDevices struct {
	first, count int
	survey       *nvml.Survey         // nil: how they are linked is not known
	layout       []layout.DeviceModel // nil: not known
}

// placeOf is the place of a pool's devices, as far as it knows them.
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

// Closest returns n of the free devices, in ascending order, those that exchange fastest: of the process with the
// fastest links among those that have as many, of this one where all are alike. Where none has, of this process and
// then of those with the most; hosts share a network, whatever their devices have.
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

// among returns those of the devices that are here.
func (p processDevices) among(devices []int) (out []int) {
	for _, d := range devices {
		if d >= p.first && d < p.first+p.count {
			out = append(out, d)
		}
	}
	slices.Sort(out)
	return out
}

// closest returns n of the devices, which are here.
func (p processDevices) closest(devices []int, n int) []int {
	if p.survey == nil || n == 0 {
		return slices.Clone(devices[:n])
	}
	out := p.survey.Choose(p.shifted(devices, -p.first), n)
	return p.shifted(out, p.first)
}

// slowest orders sets of a place by their slowest link; see gpu.Survey.
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

// Layout returns the devices as the cost model takes them, with the host of each. Those of which nothing more is
// known than their speed are taken to be processors' workers.
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

// Told reports whether more is known of every device than its speed.
func (f *Fleet) Told() bool {
	return !slices.ContainsFunc(f.places(), func(p processDevices) bool { return len(p.layout) != p.count })
}

// AssignHosts tells devices, in the fleet's order, which host has them: islands do not reach from one to another.
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

// Capabilities says what is known of the devices of all processes. What weights take, each process knows.
func (f *Fleet) Capabilities() PoolCapabilities {
	return PoolCapabilities{Layout: f.Layout, Closest: f.Closest,
		Hardware: &Hardware{Label: f.Label, Note: f.Record, Drain: f.Drain}}
}

// Label names the hardware of a device: the processors of a host are one piece of it.
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

// Record takes down what happened to a device of this process; workers have no summary.
func (f *Fleet) Record(device int, event string) {
	if hw := f.local.Capabilities().Hardware; hw != nil && device < f.here {
		hw.Note(device, event)
	}
}

// Drain takes a device out, one of a worker too: its process lends it to nobody else.
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
