package gpus

import (
	"strings"
	"testing"

	"latentbeam/internal/devices/nvml"
	"latentbeam/internal/devices/nvml/gputest"
	"latentbeam/internal/system/testaid"
	"latentbeam/schemas/fault"
)

// TestADeviceThatCannotBeOpened: a job that gives no number of workers runs without the device. One that gives a number gets another device
// in its place, or an error, and then claims none. Log and summary.json name the device, the reason and what it costs.
func TestADeviceThatCannotBeOpened(t *testing.T) {
	for _, c := range []struct {
		name    string
		devices int      // of the host
		workers int      // that the job asks for; 0: no number
		refused []int    // devices that cannot be opened
		fails   []string // parts of the error; nil: the job runs
		costs   string   // part of the log message
		used    []string // devices of the pool
	}{
		{name: "no number", devices: 4, refused: []int{2}, costs: "the job has 3 GPUs of 4, 75 % of their speed",
			used: []string{gputest.UUID(0), gputest.UUID(1), gputest.UUID(3)}},
		{name: "another instead", devices: 4, workers: 2, refused: []int{0, 2}, costs: "others take its place",
			used: []string{gputest.UUID(1), gputest.UUID(3)}},
		{name: "too few", devices: 4, workers: 3, refused: []int{1, 2}, fails: []string{"3 GPUs are asked for and 2 can be had",
			"(Tesla T4): it cannot be opened: CUDA_ERROR_DEVICE_UNAVAILABLE", "fix: ask for fewer (resources.workers"}},
		{name: "none", devices: 1, refused: []int{0}, fails: []string{"no GPU of this host can be used", "cannot be opened"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			log := testaid.Log(t)
			host, claims := gputest.T4s(c.devices), t.TempDir()
			m := newMaker(t, host)
			for _, i := range c.refused {
				m.refuses[gputest.UUID(i)] = true
			}
			p, err := Open(host, m, Options{Workers: c.workers, Claims: claims})
			if c.fails != nil {
				for _, part := range c.fails {
					if fault.ExitCode(err) != fault.ExitTryAgain || !strings.Contains(err.Error(), part) {
						t.Errorf("got error %v (exit %d), want %q (exit 75)", err, fault.ExitCode(err), part)
					}
				}
				for i := range c.devices {
					claimable(t, claims, gputest.UUID(i))
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			facts := p.Facts().(UsageFacts)
			var used []string
			for _, d := range facts.Devices {
				used = append(used, d.UUID)
			}
			if strings.Join(used, " ") != strings.Join(c.used, " ") {
				t.Errorf("the pool has %v, want %v", used, c.used)
			}
			for _, i := range c.refused {
				short := nvml.Device{UUID: gputest.UUID(i)}.Short()
				for _, part := range []string{"level=WARN", short + " (Tesla T4)", "CUDA_ERROR_DEVICE_UNAVAILABLE", c.costs} {
					if !strings.Contains(log.String(), part) {
						t.Errorf("the log says\n%s, want %q", log, part)
					}
				}
				if l := facts.Left[0]; l.UUID != gputest.UUID(i) || !strings.Contains(l.Why, "cannot be opened") {
					t.Errorf("the summary says %+v", facts.Left)
				}
				facts.Left = facts.Left[1:]
			}
			if len(facts.Left) > 0 {
				t.Errorf("the summary lists further devices: %+v", facts.Left)
			}
		})
	}
}

// claimable fails the test if another process could not claim a device.
func claimable(t *testing.T, claims, uuid string) {
	t.Helper()
	release, err := nvml.Claim(claims, uuid, "another")
	if err != nil {
		t.Fatalf("device %s is still claimed: %v", uuid, err)
	}
	release()
}
