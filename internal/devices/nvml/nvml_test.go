//go:build cgo && linux && cuda

package nvml_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	native "github.com/NVIDIA/go-nvml/pkg/nvml"

	"latentbeam/internal/devices/nvml"
	"latentbeam/internal/devices/nvml/gputest"
)

// TestNVMLShowsTheMachine: the adapter's survey over the fake driver of a host equals the survey that the host was made from.
func TestNVMLShowsTheMachine(t *testing.T) {
	for _, c := range []struct {
		name string
		host *gputest.Host
	}{
		{"8 A100", gputest.A100s(8)}, {"two islands", gputest.Islands()}, {"4 T4", gputest.T4s(4)},
		{"mixed", gputest.Mixed()}, {"divided", gputest.Divided()},
	} {
		t.Run(c.name, func(t *testing.T) {
			want, _ := c.host.Survey()
			m := newMachine(t, c.host)
			h := m.open(t)
			got, err := h.Survey()
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got.Devices, want.Devices) {
				t.Errorf("devices\n%+v, want\n%+v", got.Devices, want.Devices)
			}
			if !reflect.DeepEqual(got.Links, want.Links) {
				t.Errorf("links\n%v, want\n%v", got.Links, want.Links)
			}
			if got.Driver != want.Driver {
				t.Errorf("driver %+v, want %+v", got.Driver, want.Driver)
			}
			if !slices.Equal(got.Islands(), want.Islands()) {
				t.Errorf("islands %v, want %v", got.Islands(), want.Islands())
			}
		})
	}
}

// TestNVMLStatus: the adapter's status of each device of a sick host equals the host's. A lost device gives ErrLost.
func TestNVMLStatus(t *testing.T) {
	sick := gputest.Sick()
	survey, _ := sick.Survey()
	h := newMachine(t, sick).open(t)
	for i, d := range survey.Devices {
		want, wantErr := sick.Status(d.UUID)
		got, err := h.Status(d.UUID)
		same := err != nil || reflect.DeepEqual(got, want)
		if errors.Is(err, nvml.ErrLost) != errors.Is(wantErr, nvml.ErrLost) || !same {
			t.Errorf("device %d: got %+v, %v; want %+v, %v", i, got, err, want, wantErr)
		}
	}
	if _, err := h.Status("GPU-none"); err == nil {
		t.Error("Status of an unknown UUID returned no error")
	}
}

// TestOldDriver: functions that an old library lacks are not called (the mock would panic), and the values that they return are unknown.
func TestOldDriver(t *testing.T) {
	host := gputest.A100s(2)
	m := newMachine(t, host)
	m.lacks = []string{"nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMigMode", "nvmlDeviceGetNvLinkState",
		"nvmlDeviceGetP2PStatus", "nvmlDeviceGetTopologyCommonAncestor", "nvmlDeviceGetRemappedRows",
		"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons",
		"nvmlDeviceGetEccMode"}
	h := m.open(t)
	s, err := h.Survey()
	if err != nil {
		t.Fatal(err)
	}
	if d := s.Devices[1]; d.NVLinks != 0 || d.ECC || d.Problem != "" || d.Memory != 80<<30 {
		t.Errorf("got %+v, want no NVLinks, no ECC, no problem and 80 GiB", d)
	}
	if l := s.Links[0][1]; l.Peer || l.NVLinks != 0 || l.Path != nvml.UnknownPath {
		t.Errorf("got link %+v, want an unknown one", l)
	}
	status, err := h.Status(gputest.UUID(0))
	if err != nil || status.Throttle != 0 || status.Reserved != 0 || status.Free == 0 {
		t.Errorf("got %+v, %v; want no throttling, nothing reserved, and free memory", status, err)
	}
}

// TestNoDriver: the error of a library that cannot be initialised. It is ErrNoDriver where there is no driver at all.
func TestNoDriver(t *testing.T) {
	for _, c := range []struct {
		ret  native.Return // of Init
		none bool          // the error is ErrNoDriver
		says string        // part of the error
	}{
		{native.ERROR_LIBRARY_NOT_FOUND, true, "libnvidia-ml.so.1 is not there"},
		{native.ERROR_DRIVER_NOT_LOADED, true, "not loaded"},
		{native.ERROR_LIB_RM_VERSION_MISMATCH, false, "start NVML"},
	} {
		m := newMachine(t, gputest.A100s(1))
		m.lib.InitFunc = func() native.Return { return c.ret }
		_, err := nvml.OpenWith(m.lib)
		if err == nil || errors.Is(err, nvml.ErrNoDriver) != c.none || !strings.Contains(err.Error(), c.says) {
			t.Errorf("Init returns %v: got %v, want %q (ErrNoDriver: %v)", c.ret, err, c.says, c.none)
		}
	}
	// The real library, on a host with or without GPUs, must answer and not end the process.
	if h, err := nvml.Open(); err == nil {
		_, err = h.Survey()
		h.Close()
		t.Logf("this machine has a driver: %v", err)
	} else if !errors.Is(err, nvml.ErrNoDriver) {
		t.Logf("this machine: %v", err)
	}
}

// TestLostDeviceInSurvey: a GPU whose handle cannot be had is in the survey, with its problem.
func TestLostDeviceInSurvey(t *testing.T) {
	m := newMachine(t, gputest.A100s(2))
	good := m.lib.DeviceGetHandleByIndexFunc
	m.lib.DeviceGetHandleByIndexFunc = func(i int) (native.Device, native.Return) {
		if i == 0 {
			return nil, native.ERROR_GPU_IS_LOST
		}
		return good(i)
	}
	s, err := m.open(t).Survey()
	if err != nil || len(s.Devices) != 2 || s.Devices[0].Problem == "" || s.Devices[1].Problem != "" {
		t.Errorf("got %+v, %v; want two devices, the first with a problem", s.Devices, err)
	}
}

// TestNVMLEvents: Watch passes on events of a GPU and of its MIG instances, in the order of the driver. A lost GPU is reported once.
func TestNVMLEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t, gputest.Divided())
		h := m.open(t)
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan nvml.Event, 10)
		ended := make(chan error)
		go func() { ended <- h.Watch(ctx, func(e nvml.Event) { got <- e }) }()
		next := func(want ...nvml.Event) {
			t.Helper()
			for _, w := range want {
				select {
				case e := <-got:
					if e != w {
						t.Errorf("got event %+v, want %+v", e, w)
					}
				case <-time.After(10 * time.Second):
					t.Fatalf("got no event, want %+v", w)
				}
			}
		}
		survey, _ := h.Survey()
		uuid := func(i int) string { return survey.Devices[i].UUID } // device 0 is a GPU, 1 to 3 are its instances, 4 is another GPU
		// An XID of a whole GPU.
		m.events <- native.EventData{Device: m.devices[uuid(4)], EventType: native.EventTypeXidCriticalError, EventData: 79,
			GpuInstanceId: nvml.WholeDevice, ComputeInstanceId: nvml.WholeDevice}
		next(nvml.Event{UUID: uuid(4), Kind: nvml.XID, Code: 79})
		// An XID of one instance is reported for the GPU and for the instance.
		m.events <- native.EventData{Device: m.devices[uuid(0)], EventType: native.EventTypeXidCriticalError, EventData: 94,
			GpuInstanceId: 4, ComputeInstanceId: 0}
		next(nvml.Event{UUID: uuid(0), Kind: nvml.XID, Code: 94}, nvml.Event{UUID: uuid(2), Kind: nvml.XID, Code: 94})
		// An ECC error of a divided GPU is reported for it and for all of its instances.
		m.events <- native.EventData{Device: m.devices[uuid(0)], EventType: native.EventTypeDoubleBitEccError,
			GpuInstanceId: nvml.WholeDevice, ComputeInstanceId: nvml.WholeDevice}
		for i := range 4 {
			next(nvml.Event{UUID: uuid(i), Kind: nvml.Uncorrected})
		}
		m.host.LoseQuietly(4)
		m.broken.Store(int32(native.ERROR_GPU_IS_LOST))
		next(nvml.Event{UUID: uuid(4), Kind: nvml.Lost})
		select {
		case e := <-got:
			t.Errorf("an event after the lost device: %+v", e)
		case <-time.After(700 * time.Millisecond): // longer than Watch waits for events before it asks again
		}
		m.broken.Store(0)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		m.broken.Store(int32(native.ERROR_UNKNOWN))
		if err := h.Watch(t.Context(), func(nvml.Event) {}); err == nil {
			t.Error("Watch returned no error although the wait for events fails")
		}
		if m.freed.Load() != 2 {
			t.Errorf("%d of 2 event sets were freed", m.freed.Load())
		}
	})
}

// TestNUMA: the NUMA node of a device is read from /sys; -1 where it is not known.
func TestNUMA(t *testing.T) {
	dir := t.TempDir()
	defer nvml.SetPCIDevices(dir)()
	files := map[string]string{"0000:17:00.0": "1\n", "0000:18:00.0": "-1\n", "0000:19:00.0": "x"}
	for pci, text := range files {
		if err := os.MkdirAll(filepath.Join(dir, pci), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, pci, "numa_node"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	nodes := map[string]int{"0000:17:00.0": 1, "0000:18:00.0": -1, "0000:19:00.0": -1, "none": -1, "": -1}
	for pci, want := range nodes {
		if got := nvml.NUMANode(pci); got != want {
			t.Errorf("PCI address %q: got node %d, want %d", pci, got, want)
		}
	}
}
