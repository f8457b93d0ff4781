package sets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/kernels"
	"latentbeam/stages"
)

// faulty is the denoiser of a worker whose batches fail before their ranks are connected, on one device or in a set.
type faulty struct {
	stages.Stage
	fail func(elements int) error
}

func (f faulty) Run(ctx context.Context, dev kernels.Backend, batch []*stages.Element) error {
	if err := f.fail(len(batch)); err != nil {
		return err
	}
	return f.Stage.Run(ctx, dev, batch)
}

func (f faulty) Capabilities() stages.Capabilities { return spreading(f.Stage, f.runSet) }

func (f faulty) runSet(ctx context.Context, set *stages.Set, batch []*stages.Element) error {
	if err := f.fail(len(batch)); err != nil {
		return err
	}
	return f.Stage.Capabilities().Spread.Run(ctx, set, batch)
}

// TestARemoteBatchThatFails: if a batch panics or fails on a worker of another process, in the worker's own
// code or on one of its ranks while ranks of this process wait for it, it ends on all ranks and is computed again. The
// job completes with equal results, the worker continues, and neither side leaks anything.
func TestARemoteBatchThatFails(t *testing.T) {
	base := jobtest.NewJob(t, jobtest.SetTable)
	base.MustRun(t)
	want := jobtest.MustRead(t, base.Out)
	token := jobtest.TokenFile(t, jobtest.WorkerToken)
	var left, failures atomic.Int64
	fail := func(elements int) error {
		if elements == 1 || left.Add(-1) < 0 { // a row that panics alone on a device fails
			return nil
		}
		failures.Add(1)
		if failures.Load()%2 == 0 {
			return errors.New("the batch fails")
		}
		panic("the batch panics")
	}
	for name, around := range map[string]func(s stages.Stage) stages.Stage{
		"before its ranks meet": func(s stages.Stage) stages.Stage { return faulty{s, fail} },
		"on a rank": func(s stages.Stage) stages.Stage {
			return breaking{s, func(context.Context, *kernels.Group) error { return fail(2) }}
		},
	} {
		addr, stop := jobtest.StartWorker(t, token, 2, []stages.Spec{jobtest.Denoiser(around)})
		before := calm()
		for _, sets := range []string{
			"stages.denoise.sequence_parallel=3 resources.batch_size=2",
			"stages.denoise.sequence_parallel=2 resources.batch_size=2 resources.workers=0", // all ranks are on the worker
			"stages.denoise.sequence_parallel=1 resources.batch_size=2 resources.workers=0",
		} {
			failures.Store(0)
			left.Store(3)
			j := base.Elsewhere(t).OnHosts(token, sets, addr)
			j.MustRun(t)
			meets := !strings.Contains(sets, "sequence_parallel=1 ") // a rank alone connects to none
			if failures.Load() == 0 && (meets || name != "on a rank") {
				t.Errorf("%s, %s: the batch did not fail", name, sets)
			}
			if wrong := want.Diff(jobtest.MustRead(t, j.Out)); wrong != nil {
				t.Errorf("%s, %s: the output differs:\n%s", name, sets, strings.Join(wrong, "\n"))
			}
			settle(t, before)
		}
		stop()
	}
}

// wire forwards connections to addr and returns its own address. It breaks the first few connections that transfer more than limit
// bytes, in the middle of both directions.
func wire(t *testing.T, addr string, limit int64, cuts *atomic.Int64) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	jobtest.Must(t, err)
	var open sync.WaitGroup
	t.Cleanup(func() { l.Close(); open.Wait() })
	pass := func(to, from net.Conn) {
		defer to.Close()
		defer from.Close()
		if n, _ := io.CopyN(to, from, limit); n == limit && cuts.Add(-1) < 0 {
			io.Copy(to, from)
		}
	}
	open.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", addr)
			if err != nil {
				near.Close()
				continue
			}
			open.Go(func() { pass(far, near) })
			open.Go(func() { pass(near, far) })
		}
	})
	return l.Addr().String()
}

// TestAConnectionThatBreaks: if connections between processes break in the middle of a frame, the batches are computed again and
// the job completes with equal results. Neither side leaks anything.
func TestAConnectionThatBreaks(t *testing.T) {
	base := jobtest.NewJob(t, jobtest.SetTable)
	base.MustRun(t)
	want := jobtest.MustRead(t, base.Out)
	token := jobtest.TokenFile(t, jobtest.WorkerToken)
	addr, stop := jobtest.StartWorker(t, token, 2, nil)
	before := calm()
	for _, limit := range []int64{3000, 12345} { // both are longer than the handshake
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			var cuts atomic.Int64
			cuts.Store(3)
			j := base.Elsewhere(t).OnHosts(token, "stages.denoise.sequence_parallel=3 resources.batch_size=2",
				wire(t, addr, limit, &cuts))
			j.MustRun(t)
			if cuts.Load() >= 3 {
				t.Error("no connection was cut")
			}
			if wrong := want.Diff(jobtest.MustRead(t, j.Out)); wrong != nil {
				t.Error(strings.Join(wrong, "\n"))
			}
		})
		settle(t, before)
	}
	stop()
}
