package gpus

import (
	"cmp"
	"errors"
	"sync"
	"testing"
	"time"

	"latentbeam/internal/cluster"
	"latentbeam/internal/devices/nvml"
	"latentbeam/internal/devices/nvml/gputest"
	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
)

// fakeMaker is a Maker whose devices have the names of a host's GPUs and compute on the CPU. The maps are by UUID.
type fakeMaker struct {
	mu      sync.Mutex
	hidden  map[string]bool   // devices that are not visible
	refuses map[string]bool   // devices that cannot be opened
	old     map[string]string // why devices are too old
	changes map[string]string // classes that devices have once they are open
	opened  map[string]int    // how often each device was opened
	visible []Visible         // in reverse order of the survey, because CUDA's order may differ from NVML's
}

// fakeDevice is the backend of a fake device.
type fakeDevice struct {
	kernels.Backend
	uuid, class string
}

func (d *fakeDevice) Device() string { return d.uuid }
func (d *fakeDevice) Class() string  { return d.class }

// newMaker returns a fakeMaker with the devices of a host.
func newMaker(t *testing.T, host *gputest.Host) *fakeMaker {
	t.Helper()
	s, err := host.Survey()
	if err != nil {
		t.Fatal(err)
	}
	m := &fakeMaker{hidden: map[string]bool{}, refuses: map[string]bool{}, opened: map[string]int{}}
	for i := len(s.Devices) - 1; i >= 0; i-- {
		if d := s.Devices[i]; !d.Divided {
			m.visible = append(m.visible, Visible{UUID: d.UUID, Name: d.Name, Memory: d.Memory, Class: class(d)})
		}
	}
	return m
}

// class returns the numeric class of a device by the major number of its compute capability.
func class(d nvml.Device) string {
	return map[int]string{7: "cuda/sm_75", 8: "cuda/sm_80"}[d.Capability[0]]
}

func (m *fakeMaker) Visible() (out []Visible, err error) {
	for _, v := range m.visible {
		if v.TooOld = m.old[v.UUID]; !m.hidden[v.UUID] {
			out = append(out, v)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("no CUDA device")
	}
	return out, nil
}

func (m *fakeMaker) Open(uuid string) (kernels.Backend, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refuses[uuid] {
		return nil, errors.New("CUDA_ERROR_DEVICE_UNAVAILABLE")
	}
	m.opened[uuid]++
	for _, v := range m.visible {
		if v.UUID == uuid {
			return &fakeDevice{cpu.New(1), uuid, cmp.Or(m.changes[uuid], v.Class)}, nil
		}
	}
	return nil, errors.New("CUDA_ERROR_INVALID_DEVICE")
}

func (m *fakeMaker) Connect(devices []kernels.Backend) ([]kernels.Transport, error) {
	return cluster.Shared(len(devices)), nil
}

func (m *fakeMaker) Staged() int64 { return 0 }

// openPool opens a pool on a host and closes it at the end of the test. Options.Claims and Every may be left out.
func openPool(t *testing.T, host *gputest.Host, m *fakeMaker, o Options) *Pool {
	t.Helper()
	if o.Claims == "" {
		o.Claims = t.TempDir()
	}
	if o.Every == 0 {
		o.Every = time.Hour
	}
	p, err := Open(host, m, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// uuids returns the UUIDs of devices.
func uuids(devices []kernels.Backend) (out []string) {
	for _, d := range devices {
		out = append(out, d.Device())
	}
	return out
}
