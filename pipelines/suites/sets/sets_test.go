package sets

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/kernels"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// TestSameBytesOnAnySet: the output does not depend on the number of workers for one batch and on how they
// divide it.
func TestSameBytesOnAnySet(t *testing.T) {
	base := jobtest.NewJob(t, jobtest.SetTable)
	base.MustRun(t)
	want := jobtest.MustRead(t, base.Out)
	for _, c := range []string{
		"resources.workers=2 stages.denoise.sequence_parallel=2",
		"resources.workers=3 stages.denoise.sequence_parallel=3",
		"resources.workers=4 stages.denoise.sequence_parallel=3 stages.denoise.partition=pad",
		"resources.workers=5 stages.denoise.sequence_parallel=5 resources.threads=1",
		"resources.workers=7 stages.denoise.sequence_parallel=7 resources.batch_size=1",
		"resources.workers=8 stages.denoise.sequence_parallel=8",
		"resources.workers=6 stages.denoise.sequence_parallel=auto resources.batch_size=1",
	} {
		j := base.Elsewhere(t)
		j.Stages = "[encode_text, denoise: {}, decode_vae, guard, encode_video]"
		j.Sets = strings.Fields(c)
		j.MustRun(t)
		if wrong := want.Diff(jobtest.MustRead(t, j.Out)); wrong != nil {
			t.Errorf("%s: the output differs:\n%s", c, strings.Join(wrong, "\n"))
		}
	}
}

// TestSameBytesOverTCP: the output does not depend on whether ranks are in other processes, also if all ranks of a batch are there. A
// set leaks nothing.
func TestSameBytesOverTCP(t *testing.T) {
	base := jobtest.NewJob(t, jobtest.SetTable)
	base.MustRun(t)
	want := jobtest.MustRead(t, base.Out)
	token := jobtest.TokenFile(t, jobtest.WorkerToken)
	a, stopA := jobtest.StartWorker(t, token, 1, nil)
	b, stopB := jobtest.StartWorker(t, token, 2, nil)
	before := calm()
	for _, c := range []string{
		"stages.denoise.sequence_parallel=4",
		"stages.denoise.sequence_parallel=3 stages.denoise.partition=pad resources.batch_size=1",
		"stages.denoise.sequence_parallel=2 resources.batch_size=1", // row b alone runs on two devices
		"stages.denoise.sequence_parallel=1 resources.batch_size=1",
		"stages.denoise.sequence_parallel=3 resources.workers=0", // all ranks are in other processes
	} {
		j := base.Elsewhere(t).OnHosts(token, c, a, b)
		j.MustRun(t)
		if wrong := want.Diff(jobtest.MustRead(t, j.Out)); wrong != nil {
			t.Errorf("%s: the output differs:\n%s", c, strings.Join(wrong, "\n"))
		}
	}
	settle(t, before)
	stopA()
	stopB()
}

// TestWorkerIsRefused: a worker with another token, with other weights, or without a process is an
// error in the configuration before any work.
func TestWorkerIsRefused(t *testing.T) {
	base := jobtest.NewJob(t, jobtest.SetTable)
	token := jobtest.TokenFile(t, jobtest.WorkerToken)
	addr, _ := jobtest.StartWorker(t, token, 1, nil)
	idle := base.Elsewhere(t)
	idle.Sets = []string{"resources.workers=0"}
	for want, j := range map[string]jobtest.Job{
		"the tokens differ":  base.OnHosts(jobtest.TokenFile(t, "another secret of the tests"), "", addr),
		"connection refused": base.OnHosts(token, "resources.workers=0", "127.0.0.1:1"),
		"16 to":              base.OnHosts(jobtest.TokenFile(t, "short"), "", addr),
		"write host:port":    base.OnHosts(token, "", "localhost"),
		"there are no hosts": idle,
		"wants 3 workers for a batch, the job has 2": base.OnHosts(token, "stages.denoise.sequence_parallel=3", addr),
	} {
		_, err := j.Open()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q", err, want)
		}
		if later := fault.ExitCode(err) == fault.ExitTryAgain; later != (want == "connection refused") {
			t.Errorf("%v: got exit code %d, want 2", err, fault.ExitCode(err))
		}
	}
}

// breaking is the denoiser with ranks that fail in their first batches.
type breaking struct {
	stages.Stage
	fail func(ctx context.Context, g *kernels.Group) error
}

func (b breaking) Capabilities() stages.Capabilities { return spreading(b.Stage, b.runSet) }

// spreading returns the capabilities of a stage that spreads its batches like another stage, but runs another function.
func spreading(s stages.Stage, run func(context.Context, *stages.Set, []*stages.Element) error) stages.Capabilities {
	return stages.Capabilities{Spread: &stages.Spread{Width: s.Capabilities().Spread.Width, Run: run}}
}

// runSet adds an exchange between the ranks, in which some ranks do not take part.
func (b breaking) runSet(ctx context.Context, set *stages.Set, batch []*stages.Element) error {
	if set.Ranks() == 1 {
		return b.Run(ctx, set.Devices[0], batch)
	}
	err := set.Run(ctx, func(ctx context.Context, dev kernels.Backend, g *kernels.Group) error {
		if err := b.fail(ctx, g); err != nil {
			return err
		}
		return g.Barrier("test")
	})
	if err != nil {
		return err
	}
	return b.Stage.Capabilities().Spread.Run(ctx, set, batch)
}

// calm returns the number of goroutines, after goroutines of earlier tests have had time to end.
func calm() (n int) {
	const looks = 5
	for same := 0; same < looks; same++ {
		runtime.GC()
		time.Sleep(5 * time.Millisecond)
		if now := runtime.NumGoroutine(); same == 0 || now < n {
			n, same = now, 0
		}
	}
	return n
}

// settle waits until there are no more goroutines than before. The helpers of a CPU device end when the garbage collector finds
// the device unused. settle limits the number of checks and not the time, because the process may be suspended for minutes.
func settle(t *testing.T, before int) {
	t.Helper()
	const looks = 6000 // together more than a minute
	for n := 0; runtime.NumGoroutine() > before; n++ {
		if n == looks {
			stacks := make([]byte, 1<<20)
			stacks = stacks[:runtime.Stack(stacks, true)]
			t.Fatalf("%d goroutines, before the test there were %d:\n%s", runtime.NumGoroutine(), before, stacks)
		}
		runtime.GC()
		time.Sleep(10 * time.Millisecond)
	}
}

// TestASetThatFails: if a rank panics, fails, hangs until it is cancelled, or has another plan, the batch is computed again, and the
// job completes with equal results.
func TestASetThatFails(t *testing.T) {
	base := jobtest.NewJob(t, jobtest.SetTable)
	base.MustRun(t)
	want := jobtest.MustRead(t, base.Out)
	for name, fail := range map[string]func(ctx context.Context, g *kernels.Group) error{
		"panic": func(context.Context, *kernels.Group) error { panic("a rank panics") },
		"error": func(context.Context, *kernels.Group) error { return fmt.Errorf("a rank fails") },
		"wrong hash": func(_ context.Context, g *kernels.Group) error {
			g.Follow(uint64(g.Rank()))
			return nil // the next barrier of the other ranks notices it
		},
		"hang": func(ctx context.Context, g *kernels.Group) error {
			if g.Rank() != 1 {
				return fmt.Errorf("a rank hangs, and another fails")
			}
			<-ctx.Done()
			return ctx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			var failures atomic.Int64
			spec := jobtest.Denoiser(func(s stages.Stage) stages.Stage {
				return breaking{s, func(ctx context.Context, g *kernels.Group) error {
					if failures.Add(1) > 5 {
						return nil
					}
					return fail(ctx, g)
				}}
			})
			j := base.Elsewhere(t)
			j.Replace = &spec
			j.Stages = "[encode_text, denoise: {sequence_parallel: 3}, decode_vae, guard, encode_video]"
			j.Sets = []string{"resources.workers=3", "resources.batch_size=2"}
			before := calm()
			j.MustRun(t)
			if failures.Load() < 3 {
				t.Error("no batch failed")
			}
			if wrong := want.Diff(jobtest.MustRead(t, j.Out)); wrong != nil {
				t.Error(strings.Join(wrong, "\n"))
			}
			settle(t, before)
		})
	}
}
