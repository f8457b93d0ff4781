package engine

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"latentbeam/internal/devices/gpus"
	"latentbeam/internal/devices/nvml/gputest"
	"latentbeam/internal/system/testaid"
	"latentbeam/kernels"
	"latentbeam/stages"
)

// TestWrongResultsDrainADevice: a device is drained, and the summary says so, after it gave a NaN or an infinity for two rows for
// which other devices gave finite results. One such row may be chance. A row that is not finite on any device does not count
// against a device.
func TestWrongResultsDrainADevice(t *testing.T) {
	first := gputest.UUID(0)
	for _, c := range []struct {
		name    string
		gpus    int
		bad     func(dev, prompt string) bool
		rows    []string
		drained bool
		after   int // number of rows "b" that the first device still computes
	}{
		{"wrong once", 3, func(dev, row string) bool { return dev == first && row == "a0" }, []string{"a0", "b0", "b1"},
			false, 2},
		{"wrong twice", 3, func(dev, _ string) bool { return dev == first }, []string{"a0", "a1", "b0", "b1"}, true, 0},
		{"rows wrong everywhere", 3, func(_, row string) bool { return row[0] == 'a' }, []string{"a0", "a1", "b0"}, false, 1},
		{"both of two wrong", 2, func(string, string) bool { return true }, []string{"a0", "a1", "b0"}, false, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := testaid.Log(t)
				ran := 0 // rows "b" on the first device
				s := doubtful{width: 1, mu: &sync.Mutex{}, runs: map[string]int{}}
				s.bad = func(dev kernels.Backend, prompt string) bool {
					if dev.Device() == first && prompt[0] == 'b' {
						ran++
					}
					return c.bad(dev.Device(), prompt)
				}
				e := newEngine(t, 1, step("denoise", fakeStage{}))
				e.Schedule.Steps[0].Stage = s
				pool := openA100s(t, c.gpus)
				defer pool.Close()
				e.Schedule.Pool = pool
				out := &collector{}
				for _, row := range c.rows { // one after the other, so that the first device is always free first
					f := station(t, e, 0)
					f.give(t, out.emit, row)
					f.end(t, out.emit)
				}
				for _, el := range out.elements { // a row fails if every device gives a NaN for it
					finite := el.NotFinite(stages.KindLatents) == ""
					if wrong := c.bad("", el.Row.Prompt); (el.Failed != nil) != wrong || !wrong && !finite {
						t.Errorf("%s: %v", el.Row.Prompt, el.Failed)
					}
				}
				facts := pool.Facts().(gpus.UsageFacts).Devices[0]
				said := strings.Contains(log.String(), "is lent no more")
				if (facts.Drained != "") != c.drained || said != c.drained || ran != c.after {
					t.Errorf("drained %q, %d rows since, want %v and %d; the log says\n%s", facts.Drained, ran, c.drained,
						c.after, log)
				}
				if len(out.elements) != len(c.rows) {
					t.Errorf("%d rows came out: %v", len(out.elements), s.runs)
				}
			})
		})
	}
}
