package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"latentbeam/internal/devices/gpus"
	"latentbeam/internal/devices/nvml/gputest"
	"latentbeam/internal/system/testaid"
	"latentbeam/kernels"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// doubtful is a stage that gives a NaN where bad says so of a device and a prompt, or with steps ends as a sampler
// does. It counts its runs by prompt.
type doubtful struct {
	fakeStage
	width int
	steps bool
	bad   func(dev kernels.Backend, prompt string) bool
	mu    *sync.Mutex
	runs  map[string]int
}

func (s doubtful) Capabilities() stages.Capabilities { return spread(s.width, s.runSet) }

func (s doubtful) Run(ctx context.Context, dev kernels.Backend, batch []*stages.Element) error {
	return s.runSet(ctx, &stages.Set{Devices: []kernels.Backend{dev}}, batch)
}

func (s doubtful) runSet(_ context.Context, set *stages.Set, batch []*stages.Element) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	time.Sleep(time.Second)
	wrong := false
	for _, e := range batch {
		s.runs[e.Row.Prompt]++
		latent(e)
		for _, dev := range set.Devices {
			if s.bad(dev, e.Row.Prompt) {
				e.Latents.Data[0], wrong = float32(math.NaN()), true
			}
		}
	}
	if s.steps && wrong {
		return fmt.Errorf("step 3 of 4: %w", fault.NotFinite(errors.New("the latents hold numbers that are not finite")))
	}
	return nil
}

// openA100s is a pool of n GPUs of a fake host.
func openA100s(t *testing.T, n int) *gpus.Pool {
	t.Helper()
	host := gputest.A100s(n)
	survey, _ := host.Survey()
	pool, err := gpus.Open(host, fakeGPUs{survey}, gpus.Options{Claims: t.TempDir(), Every: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return pool
}

// onlyBadFails checks that n elements came out and that the row "bad" alone failed, with this end of the message.
func onlyBadFails(t *testing.T, elements []*stages.Element, n int, fails string) {
	t.Helper()
	for _, el := range elements {
		switch {
		case el.Row.Prompt != "bad" && (el.Failed != nil || el.NotFinite(stages.KindLatents) != ""):
			t.Errorf("%s: %v, latents %v", el.Row.Prompt, el.Failed, el.Latents)
		case el.Row.Prompt == "bad" && (el.Failed == nil || !strings.HasSuffix(el.Failed.Message, fails)):
			t.Errorf("%s: %v, want %q", el.Row.Prompt, el.Failed, fails)
		}
	}
	if len(elements) != n {
		t.Errorf("%d elements came out", len(elements))
	}
}

// TestNotFinite: what is not finite is computed once more on another device, and fails only where that says the same.
func TestNotFinite(t *testing.T) {
	row := func(_ kernels.Backend, prompt string) bool { return prompt == "bad" }
	sick := func(dev kernels.Backend, _ string) bool { return dev.Device() == gputest.UUID(0) }
	cases := 0
	first, second := "GPU-00000000 (NVIDIA A100-SXM4-80GB)", "GPU-00000001 (NVIDIA A100-SXM4-80GB)"
	for _, c := range []struct {
		name  string
		gpus  int // 0: a device that the pool does not tell from others
		width int
		steps bool
		bad   func(dev kernels.Backend, prompt string) bool
		batch []string
		runs  map[string]int
		fails string // of the row "bad"
		warns string
	}{
		{name: "a row", gpus: 2, bad: row, batch: []string{"a", "bad"}, runs: map[string]int{"a": 1, "bad": 2},
			fails: "value 0 of the latents is NaN", warns: "device=\"" + first + "\" again_on=\"" + second + "\""},
		{name: "a row, in a step", gpus: 2, steps: true, bad: row, batch: []string{"a", "bad", "c"},
			runs:  map[string]int{"a": 2, "bad": 2, "c": 2},
			fails: "step 3 of 4: the latents hold numbers that are not finite",
			warns: "device=\"" + first + "\" again_on=\"" + second + "\""},
		{name: "a row, without another device", gpus: 1, bad: row, batch: []string{"bad"}, runs: map[string]int{"bad": 1},
			fails: "value 0 of the latents is NaN"},
		{name: "a row, where devices are alike", bad: row, steps: true, batch: []string{"bad"}, runs: map[string]int{"bad": 1},
			fails: "step 3 of 4: the latents hold numbers that are not finite"},
		{name: "a row on a set", gpus: 3, width: 3, steps: true, bad: row, batch: []string{"bad"},
			runs: map[string]int{"bad": 2}, fails: "step 3 of 4: the latents hold numbers that are not finite",
			warns: "again_on=\"GPU-00000002"},
		{name: "a sick device", gpus: 2, bad: sick, batch: []string{"a", "b"}, runs: map[string]int{"a": 2, "b": 2},
			warns: "well_on=\"" + second + "\""},
		{name: "a sick device, in a step", gpus: 2, steps: true, bad: sick, batch: []string{"a", "b"},
			runs: map[string]int{"a": 2, "b": 2}, warns: "device=\"" + first + "\" well_on=\"" + second + "\""},
		{name: "a sick device of a set", gpus: 3, width: 3, bad: sick, batch: []string{"a"}, runs: map[string]int{"a": 2},
			warns: "well_on=\"GPU-00000002"},
	} {
		cases++
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := testaid.Log(t)
				s := doubtful{width: max(1, c.width), steps: c.steps, bad: c.bad, mu: &sync.Mutex{}, runs: map[string]int{}}
				e := newEngine(t, 1, step("denoise", fakeStage{}))
				e.Schedule.Steps[0].Stage = s
				var pool *gpus.Pool
				if c.gpus > 0 {
					pool = openA100s(t, c.gpus)
					defer pool.Close()
					e.Schedule.Pool = pool
				}
				f, out := station(t, e, 0), &collector{}
				f.give(t, out.emit, c.batch...)
				f.end(t, out.emit)
				if fmt.Sprint(s.runs) != fmt.Sprint(c.runs) {
					t.Errorf("runs %v, want %v", s.runs, c.runs)
				}
				onlyBadFails(t, out.elements, len(c.batch), c.fails)
				if got := log.String(); !strings.Contains(got, c.warns) || (c.warns == "") != (got == "") {
					t.Errorf("the log says %q, want %q", got, c.warns)
				}
				if pool == nil {
					return
				}
				noted := slices.ContainsFunc(pool.Facts().(gpus.UsageFacts).Devices[0].Events, func(text string) bool {
					return strings.Contains(text, "denoise: a result was not finite that is on GPU-")
				})
				if noted != strings.Contains(c.warns, "well_on") {
					t.Errorf("the summary says %+v", pool.Facts())
				}
			})
		})
	}
	t.Logf("P10: %d cases of results that are not finite, of rows and of sick devices, alone and in sets, in steps and at the end: "+
		"each is computed again on another device, and only a row that fails there too fails", cases)
}
