package devices

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"latentbeam/internal/devices/nvml"
	"latentbeam/internal/devices/nvml/gputest"

	"latentbeam/internal/cluster"
	"latentbeam/stages/layout"
)

// surveyed is a pool of processors that has a survey of links and a layout, as a pool of GPUs has.
type surveyed struct {
	*CPU
	survey nvml.Survey
	kind   string // argument of layout.ParseDevices
}

func (s surveyed) Capabilities() PoolCapabilities {
	d, err := layout.ParseDevices(s.kind)
	if err != nil {
		panic(err)
	}
	can := s.CPU.Capabilities()
	can.Survey = func() nvml.Survey { return s.survey }
	can.Layout = func() []layout.DeviceModel { return d }
	return can
}

// machine returns the pool of a process with the devices of a host, or with n devices without a survey if host is nil.
func machine(t *testing.T, host *gputest.Host, kind string, n int) Pool {
	t.Helper()
	var s nvml.Survey
	if host != nil {
		s, _ = host.Survey()
		n = len(s.Devices)
	}
	p, err := NewCPU(n, 1, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if host == nil {
		return p
	}
	return surveyed{p, s, kind}
}

// fleetOf returns the fleet of a process with the pool local and of workers with the other pools. Devices are numbered in this order.
func fleetOf(t *testing.T, local Pool, workers ...Pool) *Fleet {
	t.Helper()
	token := cluster.Token("a secret of the tests")
	var addrs []string
	for _, w := range workers {
		reply := Reply{Speeds: w.Speeds(), Class: local.Class()}
		reply.Describe(w)
		addr, stop := startWorker(t, "127.0.0.1:0", token, reply)
		t.Cleanup(stop)
		addrs = append(addrs, addr)
	}
	f, err := Dial(t.Context(), local, token, addrs, FleetJob{Start: json.RawMessage("{}")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

// TestSetsOfAFleetFollowLinks: a set prefers NVLink, then PCIe, then copies through the host, then the network, in whichever process the
// links are. If all links are alike, it prefers this process.
func TestSetsOfAFleetFollowLinks(t *testing.T) {
	a100s, islands, t4s := gputest.A100s(8), gputest.Islands(), gputest.T4s(4)
	all := func(n int) []int { return numbers(0, n) }
	for _, c := range []struct {
		name    string
		local   Pool
		workers []Pool
		free    []int // devices that are not leased
		n       int   // devices of the set
		want    []int
	}{
		{"alike: here", machine(t, a100s, "8xA100", 0), []Pool{machine(t, a100s, "8xA100", 0)}, all(16), 4, all(4)},
		{"NVLink there, PCIe here", machine(t, t4s, "4xT4", 0), []Pool{machine(t, a100s, "8xA100", 0)}, all(12), 2,
			[]int{4, 5}},
		{"NVLink here, PCIe there", machine(t, a100s, "8xA100", 0), []Pool{machine(t, t4s, "4xT4", 0)}, all(12), 2,
			[]int{0, 1}},
		{"one device: here", machine(t, t4s, "4xT4", 0), []Pool{machine(t, a100s, "8xA100", 0)}, all(12), 1,
			[]int{0}},
		{"a whole island", machine(t, islands, "4xA100+4xA100", 0), []Pool{machine(t, t4s, "4xT4", 0)},
			[]int{0, 1, 3, 4, 5, 6, 7, 8, 9}, 4, []int{4, 5, 6, 7}},
		{"an island there, a broken one here", machine(t, islands, "4xA100+4xA100", 0),
			[]Pool{machine(t, islands, "4xA100+4xA100", 0)}, []int{0, 1, 2, 4, 5, 6, 12, 13, 14, 15}, 4,
			[]int{12, 13, 14, 15}},
		{"PCIe of one host before the network", machine(t, t4s, "4xT4", 0), []Pool{machine(t, t4s, "4xT4", 0)},
			[]int{0, 1, 5, 6, 7}, 3, []int{5, 6, 7}},
		{"no host has enough: this one, then the one with the most", machine(t, nil, "", 2),
			[]Pool{machine(t, nil, "", 1), machine(t, nil, "", 3)}, all(6), 5, []int{0, 1, 3, 4, 5}},
		{"linked devices of the last host", machine(t, nil, "", 3),
			[]Pool{machine(t, gputest.Mixed(), "2xA100+2xT4", 0)}, all(7), 5, []int{0, 1, 2, 4, 6}},
		{"processors: here", machine(t, nil, "", 2), []Pool{machine(t, nil, "", 3)}, all(5), 2, all(2)},
		{"processors: there", machine(t, nil, "", 2), []Pool{machine(t, nil, "", 3)}, all(5), 3, []int{2, 3, 4}},
	} {
		f := fleetOf(t, c.local, c.workers...)
		if got := f.Closest(c.free, c.n); !slices.Equal(got, c.want) {
			t.Errorf("%s: Closest(%v, %d) = %v, want %v", c.name, c.free, c.n, got, c.want)
		}
		for d := range f.busy {
			f.busy[d] = !slices.Contains(c.free, d)
		}
		if got, err := f.choose(c.n); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: choose(%d) = %v, %v; want %v", c.name, c.n, got, err, c.want)
		}
		if got, err := f.choose(len(c.free) + 1); len(c.free) < f.Size() && (got != nil || err != nil) {
			t.Errorf("%s: choose of more devices than are free: got %v, %v; want nil, so that the lease waits", c.name, got, err)
		}
	}
}

// TestLayoutOfAFleet: in the layout for the cost model, every process is a host with its own islands.
func TestLayoutOfAFleet(t *testing.T) {
	f := fleetOf(t, machine(t, gputest.Islands(), "4xA100+4xA100", 0), machine(t, gputest.T4s(4), "3xT4+1xT4", 0),
		machine(t, nil, "", 2))
	var nodes, islands []int
	var names []string
	for _, d := range f.Layout() {
		nodes, islands, names = append(nodes, d.Node), append(islands, d.Island), append(names, strings.Split(d.Name, "-")[0])
	}
	if !slices.Equal(nodes, []int{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2}) ||
		!slices.Equal(islands, []int{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 3, 4, 4}) ||
		names[0] != "A100" || names[8] != "T4" || names[12] != "cpu" {
		t.Errorf("the devices have hosts %v, islands %v, names %v", nodes, islands, names)
	}
}

// TestNonsense: a worker is refused if its layout or survey does not describe as many devices as it has.
func TestNonsense(t *testing.T) {
	local := machine(t, nil, "", 1)
	token := cluster.Token("a secret of the tests")
	for text, spoil := range map[string]func(r *Reply){
		"it describes 1 of 2":                 func(r *Reply) { r.Layout = r.Layout[:1] },
		"it surveys 1 of 2":                   func(r *Reply) { r.Survey.Devices = r.Survey.Devices[:1] },
		"it surveys 0 of 2":                   func(r *Reply) { r.Survey = &nvml.Survey{} },
		"it surveys 3 links of a device to 2": func(r *Reply) { r.Survey.Links[1] = make([]nvml.Link, 3) },
	} {
		s, _ := gputest.A100s(2).Survey()
		s = s.Of([]int{0, 1}) // a copy
		r := Reply{Speeds: []float64{1, 1}, Class: local.Class(), Layout: make([]layout.DeviceModel, 2), Survey: &s}
		spoil(&r)
		addr, stop := startWorker(t, "127.0.0.1:0", token, r)
		_, err := Dial(context.Background(), local, token, []string{addr}, FleetJob{Start: json.RawMessage("{}")})
		stop()
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("got error %v, want %q", err, text)
		}
	}
}
