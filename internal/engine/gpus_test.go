package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"latentbeam/internal/cluster"
	"latentbeam/internal/devices/gpus"
	"latentbeam/internal/devices/nvml"
	"latentbeam/internal/devices/nvml/gputest"
	"latentbeam/kernels"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// fakeGPUs is a Maker whose devices compute nothing.
type fakeGPUs struct{ survey nvml.Survey }

// fakeGPU is a device that is what its UUID says.
type fakeGPU struct {
	idle
	uuid string
}

func (d fakeGPU) Device() string { return d.uuid }
func (d fakeGPU) Class() string  { return "fake" }
func (d fakeGPU) Wait() error    { return nil }

func (m fakeGPUs) Visible() (out []gpus.Visible, err error) {
	for _, d := range m.survey.Devices {
		out = append(out, gpus.Visible{UUID: d.UUID, Name: d.Name, Memory: d.Memory, Class: "fake"})
	}
	return out, nil
}

func (m fakeGPUs) Open(uuid string) (kernels.Backend, error) { return fakeGPU{uuid: uuid}, nil }

func (m fakeGPUs) Connect(devices []kernels.Backend) ([]kernels.Transport, error) {
	return cluster.Shared(len(devices)), nil
}

func (m fakeGPUs) Staged() int64 { return 0 }

// onGPUs is a stage that takes a second, and notes which devices have worked for it.
type onGPUs struct {
	fakeStage
	width int
	mu    *sync.Mutex
	used  *[][]string
}

func (s onGPUs) Capabilities() stages.Capabilities { return spread(s.width, s.runSet) }

func (s onGPUs) runSet(ctx context.Context, set *stages.Set, batch []*stages.Element) error {
	var names []string
	for _, dev := range set.Devices {
		names = append(names, dev.Device()[4:12])
	}
	s.mu.Lock()
	*s.used = append(*s.used, names)
	s.mu.Unlock()
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for _, e := range batch {
		latent(e)
	}
	return nil
}

func (s onGPUs) Run(ctx context.Context, dev kernels.Backend, batch []*stages.Element) error {
	return s.runSet(ctx, stages.Alone(dev), batch)
}

// onHost lets batches of one element each run on the GPUs of a host, while something happens to it.
func onHost(t *testing.T, host *gputest.Host, width, batches int, happens func()) (out *collector, used [][]string,
	facts gpus.UsageFacts, err error) {
	survey, _ := host.Survey()
	pool, err := gpus.Open(host, fakeGPUs{survey}, gpus.Options{Claims: t.TempDir(), Every: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	s := onGPUs{width: width, mu: &sync.Mutex{}, used: &used}
	e := newEngine(t, 1, step("denoise", fakeStage{}))
	e.Schedule.Steps[0].Stage, e.Schedule.Pool = s, pool
	f, out := station(t, e, 0), &collector{}
	go func() {
		time.Sleep(1500 * time.Millisecond)
		happens()
	}()
	for i := range batches {
		b := &stages.Batch{Elements: e.elements(fmt.Sprint("prompt ", i))}
		if err = f.Submit(b, out.emit); err != nil {
			break
		}
	}
	if err == nil {
		err = f.Close(out.emit)
	}
	time.Sleep(2 * time.Second)
	return out, used, pool.Facts().(gpus.UsageFacts), err
}

// TestGPUsOfAHost: sets stay on their islands, a device that is lost is used no more and its batch is done on
// others, and without any device the job ends to be run again.
func TestGPUsOfAHost(t *testing.T) {
	check := func(t *testing.T, out *collector, batches int) {
		t.Helper()
		for _, el := range out.elements {
			if el.Failed != nil || el.Latents == nil {
				t.Errorf("%s: %v", el.Row.Prompt, el.Failed)
			}
		}
		if len(out.elements) != batches {
			t.Errorf("%d of %d came out", len(out.elements), batches)
		}
	}
	island := func(name string) int { return map[bool]int{true: 0, false: 1}[name < "00000004"] }

	t.Run("islands", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			out, used, _, err := onHost(t, gputest.Islands(), 3, 6, func() {})
			if err != nil {
				t.Fatal(err)
			}
			check(t, out, 6)
			for _, set := range used {
				if slices.ContainsFunc(set, func(d string) bool { return island(d) != island(set[0]) }) {
					t.Errorf("a set over two islands: %v", set)
				}
			}
		})
	})
	t.Run("one is lost", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			host := gputest.A100s(4)
			out, used, facts, err := onHost(t, host, 1, 12, func() { host.Lose(2) })
			if err != nil {
				t.Fatal(err)
			}
			check(t, out, 12)
			if d := facts.Devices[2]; !strings.Contains(d.Drained, "XID 79") || d.Leases != 2 {
				t.Errorf("%+v", d)
			}
			if len(used) != 13 { // one batch twice
				t.Errorf("%d runs: %v", len(used), used)
			}
		})
	})
	t.Run("an application's fault", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			host := gputest.A100s(4)
			out, used, _, err := onHost(t, host, 1, 12, func() { host.Report(2, nvml.XID, 31) })
			if check(t, out, 12); err != nil || len(used) != 12 {
				t.Errorf("%d runs, %v", len(used), err)
			}
		})
	})
	t.Run("all are lost", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			host := gputest.T4s(2)
			_, _, _, err := onHost(t, host, 1, 12, func() { host.Lose(0); host.LoseQuietly(1) })
			if fault.ExitCode(err) != fault.ExitTryAgain {
				t.Errorf("%v, exit %d", err, fault.ExitCode(err))
			}
			if errors.Is(err, context.Canceled) {
				t.Errorf("it looks like an interrupt: %v", err)
			}
		})
	})
}
