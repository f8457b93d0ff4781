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

// TestHealth: what happens to a device while it works, and what the lease and the pool make of it.
func TestHealth(t *testing.T) {
	for _, c := range []struct {
		name    string
		happens func(h *gputest.Host)
		ill     string // part of why the lease ends, "" when it does not
		lost    bool   // the error says that the device is gone
		drained bool
		event   string
	}{
		{"an application's fault", func(h *gputest.Host) { h.Report(0, nvml.XID, 13) }, "", false, false, "XID 13"},
		{"a page fault of an application", func(h *gputest.Host) { h.Report(0, nvml.XID, 31) }, "", false, false, "XID 31"},
		{"an application was stopped", func(h *gputest.Host) { h.Report(0, nvml.XID, 43) }, "", false, false, "XID 43"},
		{"another device", func(h *gputest.Host) { h.Report(1, nvml.XID, 79) }, "", false, false, ""},
		{"the work is spoiled", func(h *gputest.Host) { h.Report(0, nvml.XID, 94) }, "XID 94", false, false, "XID 94"},
		{"off the bus", func(h *gputest.Host) { h.Lose(0) }, "XID 79", true, true, "XID 79"},
		{"off the bus, and nobody says so", func(h *gputest.Host) { h.LoseQuietly(0) }, "does not answer", true, true,
			"does not answer"},
		{"double-bit error", func(h *gputest.Host) { h.Report(0, nvml.Uncorrected, 0) }, "uncorrectable", true, true,
			"uncorrectable"},
		{"double-bit error that is only counted", func(h *gputest.Host) {
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
				ill := set.HealthError()
				if (ill != nil) != (c.ill != "") || ill != nil && !strings.Contains(ill.Error(), c.ill) {
					t.Errorf("the lease: %v, want %q", ill, c.ill)
				}
				if ill != nil && (fault.ClassOf(ill) != fault.ClassRetry || fault.IsDeviceLost(ill) != c.lost) {
					t.Errorf("%v: class %v, lost %v", ill, fault.ClassOf(ill), fault.IsDeviceLost(ill))
				}
				release(ill == nil)
				if gone := p.Speeds()[0] == 0; gone != c.drained {
					t.Errorf("drained: %v", gone)
				}
				f := p.Facts().(UsageFacts).Devices[0]
				if strings.Join(f.Events, ";") == "" != (c.event == "") || !strings.Contains(strings.Join(f.Events, ";"), c.event) {
					t.Errorf("events %q, want %q", f.Events, c.event)
				}
				if (f.Drained != "") != c.drained {
					t.Errorf("facts say drained: %q", f.Drained)
				}
				p.Close()
				p.stop = func() {}
			})
		})
	}
}

// TestAllAreLost: whoever waits for a device is told, and the job can be run again.
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
			t.Errorf("who waits: %v", err)
		}
		release(false)
		p.Close()
		p.stop = func() {}
	})
}

// TestChanged: who watches the pool learns of a device that is gone.
func TestChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := gputest.T4s(2)
		p := openPool(t, host, newMaker(t, host), Options{})
		changed := p.Changed()
		synctest.Wait()
		host.Lose(1)
		<-changed
		if p.Size() != 1 {
			t.Errorf("%d devices", p.Size())
		}
		p.Close()
		p.stop = func() {}
	})
}

// TestWithoutNVML: the devices are used as CUDA shows them; nothing is known of their health.
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
		t.Errorf("%+v", f)
	}
	for _, v := range m.visible {
		m.hidden[v.UUID] = true
	}
	if _, err := Open(nil, m, Options{Claims: t.TempDir()}); !errors.Is(err, ErrNone) {
		t.Errorf("no device: %v", err)
	}
}

func TestFacts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := gputest.Sick()
		p := openPool(t, host, newMaker(t, host), Options{Every: time.Second})
		time.Sleep(3500 * time.Millisecond)
		f := p.Facts().(UsageFacts)
		d := f.Devices[0]
		if d.Hottest != 92 || d.Utilization != 100 || d.MostPower != 52 || d.Throttled["heat (hardware)"] != 3 {
			t.Errorf("%+v", d)
		}
		if len(f.Devices) != 2 || len(f.Left) != 2 || f.Driver.Version == "" {
			t.Errorf("%+v", f)
		}
		text, err := json.Marshal(f)
		if err != nil || !strings.Contains(string(text), `"throttled_seconds":{"hardware slowdown":3`) {
			t.Errorf("%s, %v", text, err)
		}
		for range 100 {
			p.handle(nvml.Event{UUID: d.UUID, Kind: nvml.XID, Code: 13})
		}
		if n := len(p.Facts().(UsageFacts).Devices[0].Events); n != maxEvents {
			t.Errorf("%d events are kept", n)
		}
		p.Close()
		p.stop = func() {}
	})
}

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
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
