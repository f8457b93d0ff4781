package gpus

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"latentbeam/internal/devices"
	"latentbeam/internal/devices/nvml"
	"latentbeam/internal/devices/nvml/gputest"
	"latentbeam/schemas/fault"
)

// TestHealth: something happens to a leased device of two. The table says whether the lease ends, with which error, whether the pool drains
// the device (gives it to nobody any more), and which event the facts list.
func TestHealth(t *testing.T) {
	for _, c := range []struct {
		name    string
		happens func(h *gputest.Host)
		ill     string // part of the error that ends the lease; "": it goes on
		lost    bool   // the error is fault.DeviceLost
		drained bool
		event   string // part of the events in the facts; "": no event
	}{
		{"an application's fault", func(h *gputest.Host) { h.Report(0, nvml.XID, 13) }, "", false, false, "XID 13"},
		{"a page fault of an application", func(h *gputest.Host) { h.Report(0, nvml.XID, 31) }, "", false, false, "XID 31"},
		{"an application was stopped", func(h *gputest.Host) { h.Report(0, nvml.XID, 43) }, "", false, false, "XID 43"},
		{"a fault of another device", func(h *gputest.Host) { h.Report(1, nvml.XID, 79) }, "", false, false, ""},
		{"contained memory error", func(h *gputest.Host) { h.Report(0, nvml.XID, 94) }, "XID 94", false, false, "XID 94"},
		{"off the bus", func(h *gputest.Host) { h.Lose(0) }, "XID 79", true, true, "XID 79"},
		{"off the bus, without an event", func(h *gputest.Host) { h.LoseQuietly(0) }, "does not answer", true, true,
			"does not answer"},
		{"double-bit error", func(h *gputest.Host) { h.Report(0, nvml.Uncorrected, 0) }, "uncorrectable", true, true,
			"uncorrectable"},
		{"double-bit error, only in the counter", func(h *gputest.Host) {
			h.Set(0, func(s *nvml.DeviceStatus) { s.ECC.Uncorrected = 1 })
		}, "uncorrectable", true, true, "uncorrectable"},
		{"no spare rows", func(h *gputest.Host) { h.Set(0, func(s *nvml.DeviceStatus) { s.ECC.RemapFailed = true }) },
			"row remapping failed", true, true, ""},
		{"heat", func(h *gputest.Host) { h.Set(0, func(s *nvml.DeviceStatus) { s.Throttle = nvml.HeatHardware }) }, "", false,
			false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				host := gputest.A100s(2)
				p := openPool(t, host, newMaker(t, host), Options{Every: time.Second})
				set, release, err := p.LeaseThese(t.Context(), []int{0})
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				c.happens(host)
				time.Sleep(1500 * time.Millisecond)
				synctest.Wait()
				err = set.HealthError()
				if (err != nil) != (c.ill != "") || err != nil && !strings.Contains(err.Error(), c.ill) {
					t.Errorf("the lease has the error %v, want %q", err, c.ill)
				}
				if err != nil && (fault.ClassOf(err) != fault.ClassRetry || fault.IsDeviceLost(err) != c.lost) {
					t.Errorf("%v: got class %v, lost %v; want retry, %v", err, fault.ClassOf(err), fault.IsDeviceLost(err), c.lost)
				}
				release(err == nil)
				if drained := p.Speeds()[0] == 0; drained != c.drained {
					t.Errorf("got drained %v, want %v", drained, c.drained)
				}
				f := p.Facts().(UsageFacts).Devices[0]
				if strings.Join(f.Events, ";") == "" != (c.event == "") || !strings.Contains(strings.Join(f.Events, ";"), c.event) {
					t.Errorf("got events %q, want %q", f.Events, c.event)
				}
				if (f.Drained != "") != c.drained {
					t.Errorf("the facts give %q as reason of the draining, want one: %v", f.Drained, c.drained)
				}
				p.Close()
				p.stop = func() {}
			})
		})
	}
}

// TestAllAreLost: when the last device is lost, a lease that waits ends with an error, and the exit code says that the job can be run again.
func TestAllAreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := gputest.T4s(1)
		p := openPool(t, host, newMaker(t, host), Options{})
		_, release, err := devices.Lease(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		waited := make(chan error)
		go func() {
			_, _, err := p.LeaseSet(t.Context(), 1)
			waited <- err
		}()
		synctest.Wait()
		host.Lose(0)
		if err := <-waited; fault.ExitCode(err) != fault.ExitTryAgain {
			t.Errorf("the lease that waits: got %v (exit %d), want exit 75", err, fault.ExitCode(err))
		}
		release(false)
		p.Close()
		p.stop = func() {}
	})
}

// TestChanged: the channel of Changed is closed when a device is lost.
func TestChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := gputest.T4s(2)
		p := openPool(t, host, newMaker(t, host), Options{})
		changed := p.Changed()
		synctest.Wait()
		host.Lose(1)
		<-changed
		if p.Size() != 1 {
			t.Errorf("got %d devices, want 1", p.Size())
		}
		p.Close()
		p.stop = func() {}
	})
}

// TestWithoutNVML: without NVML, a pool has the devices that CUDA shows. Without those it is ErrNone.
func TestWithoutNVML(t *testing.T) {
	m := newMaker(t, gputest.T4s(2))
	p, err := Open(nil, m, Options{Claims: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, release, err := p.LeaseSet(t.Context(), 2); err != nil {
		t.Error(err)
	} else {
		release(true)
	}
	if f := p.Facts().(UsageFacts); len(f.Devices) != 2 || f.Devices[0].Leases != 1 {
		t.Errorf("got facts %+v, want two devices, the first with one lease", f)
	}
	for _, v := range m.visible {
		m.hidden[v.UUID] = true
	}
	if _, err := Open(nil, m, Options{Claims: t.TempDir()}); !errors.Is(err, ErrNone) {
		t.Errorf("without a device: got %v, want ErrNone", err)
	}
}

// TestFacts: the pool reads the health of its devices every second. The facts have the extremes, the seconds of throttling, the devices that
// are left out, and the last maxEvents events.
func TestFacts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := gputest.Sick()
		p := openPool(t, host, newMaker(t, host), Options{Every: time.Second})
		time.Sleep(3500 * time.Millisecond)
		f := p.Facts().(UsageFacts)
		d := f.Devices[0]
		if d.Hottest != 92 || d.Utilization != 100 || d.MostPower != 52 || d.Throttled["heat (hardware)"] != 3 {
			t.Errorf("got %+v, want 92 degrees, 100 %%, 52 W and 3 s of throttling", d)
		}
		if len(f.Devices) != 2 || len(f.Left) != 2 || f.Driver.Version == "" {
			t.Errorf("got %+v, want 2 devices, 2 left out, and the driver's version", f)
		}
		text, err := json.Marshal(f)
		if err != nil || !strings.Contains(string(text), `"throttled_seconds":{"hardware slowdown":3`) {
			t.Errorf("throttled_seconds is missing in %s, %v", text, err)
		}
		for range 100 {
			p.handle(nvml.Event{UUID: d.UUID, Kind: nvml.XID, Code: 13})
		}
		if n := len(p.Facts().(UsageFacts).Devices[0].Events); n != maxEvents {
			t.Errorf("%d events are kept, want %d", n, maxEvents)
		}
		p.Close()
		p.stop = func() {}
	})
}

// TestModels: the model of a GPU in the tables of the cost model, by NVIDIA's name of it; "": not in the tables.
func TestModels(t *testing.T) {
	for name, want := range map[string]string{
		"NVIDIA A100-SXM4-80GB": "A100", "NVIDIA A100 80GB PCIe": "A100PCIe", "NVIDIA A100-PCIE-40GB": "A100PCIe",
		"Tesla T4": "T4", "NVIDIA H100 80GB HBM3": "H100", "NVIDIA H100 PCIe": "H100PCIe", "NVIDIA H200": "H200",
		"NVIDIA GeForce RTX 4090": "RTX4090", "NVIDIA GeForce RTX 3090 Ti": "RTX3090", "NVIDIA L40S": "L40S",
		"NVIDIA L4": "L4", "NVIDIA A10G": "A10G", "NVIDIA A10": "A10", "NVIDIA RTX A6000": "A6000",
		"Tesla V100-SXM2-16GB": "V100", "NVIDIA B200": "B200", "NVIDIA A100-SXM4-80GB MIG 2g.20gb": "A100",
		"NVIDIA GeForce GTX 1080": "",
	} {
		if got := model(name); got != want {
			t.Errorf("model(%q) = %q, want %q", name, got, want)
		}
	}
}
