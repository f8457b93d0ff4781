package cluster

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/kernels/kerneltest"
)

// carrier makes the ends of a group whose ranks compute on these devices.
type carrier func(t testing.TB, devices []kernels.Backend) []kernels.Transport

// carriers are the transports that the suite runs over.
func carriers() map[string]carrier {
	return map[string]carrier{
		"shared": func(_ testing.TB, d []kernels.Backend) []kernels.Transport { return Shared(len(d)) },
		"tcp":    func(t testing.TB, d []kernels.Backend) []kernels.Transport { return loopback(t, len(d), 1) },
		"mixed":  func(t testing.TB, d []kernels.Backend) []kernels.Transport { return loopback(t, len(d), 2) },
		"linked": func(t testing.TB, d []kernels.Backend) []kernels.Transport { return linkedTo(t, d, 2) },
	}
}

// grace is how long a group that failed may take to end; patience is how long a rank waits for another. Both are far
// beyond the need of a busy machine, and no passing test waits so long.
const (
	grace    = time.Minute
	patience = 4 * time.Minute
)

// everywhere runs f over every transport and backend, and checks that no goroutine stays behind.
func everywhere(t *testing.T, f func(t *testing.T, s suite)) {
	backends := map[string]func() kernels.Backend{
		"cpu":  func() kernels.Backend { return cpu.New(1) },
		"late": func() kernels.Backend { return kerneltest.Deferred(cpu.New(1)) },
	}
	for carrier, ends := range carriers() {
		for backend, newBackend := range backends {
			t.Run(carrier+"/"+backend, func(t *testing.T) {
				before := runtime.NumGoroutine()
				f(t, suite{ends, func(int) kernels.Backend { return newBackend() }, patience})
				checkGoroutines(t, before)
			})
		}
	}
	onDevices(t, f)
}

// checkGoroutines waits until there are no more goroutines than before.
func checkGoroutines(t *testing.T, before int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); runtime.NumGoroutine() > before; {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<16)
			t.Fatalf("%d goroutines, there were %d:\n%s", runtime.NumGoroutine(), before,
				stacks[:runtime.Stack(stacks, true)])
		}
		time.Sleep(time.Millisecond)
	}
}

// suite is one transport with one kind of backend.
type suite struct {
	carrier    carrier
	newBackend func(rank int) kernels.Backend
	patience   time.Duration
}

// ends returns the ends of a group of n, and their devices.
func (s suite) ends(t testing.TB, n int) ([]kernels.Transport, []kernels.Backend) {
	devices := make([]kernels.Backend, n)
	for i := range devices {
		devices[i] = s.newBackend(i)
	}
	return s.carrier(t, devices), devices
}

// run lets n ranks run f, and closes the ends.
func (s suite) run(t testing.TB, n int, f func(g *kernels.Group, be kernels.Backend) error) error {
	t.Helper()
	ends, devices := s.ends(t, n)
	defer closeAll(ends)
	ctx := t.Context()
	return kernels.RunRanks(ctx, ends, grace, func(ctx context.Context, i int, tr kernels.Transport) error {
		be := devices[i]
		defer be.Scope()()
		return f(kernels.NewGroup(ctx, tr, be, s.patience), be)
	})
}

func closeAll(ends []kernels.Transport) {
	for _, e := range ends {
		if c, ok := e.(interface{ Close() error }); ok {
			c.Close()
		}
	}
}

// filled returns a tensor whose elements count up from first.
func filled(be kernels.Backend, dt kernels.DType, first int, shape ...int) kernels.Tensor {
	t := be.Alloc(dt, shape...)
	values := make([]float32, t.Len())
	for i := range values {
		values[i] = float32((first + i) % 251) // exact in every type
	}
	be.Upload(t, values)
	return t
}

// expect compares t with the values from first on.
func expect(be kernels.Backend, t kernels.Tensor, want func(i int) float32) error {
	got := make([]float32, t.Len())
	if err := be.Download(got, t); err != nil {
		return err
	}
	for i, x := range got {
		if x != want(i) {
			return fmt.Errorf("element %d is %v, want %v", i, x, want(i))
		}
	}
	return nil
}

// TestAllToAll turns a matrix that is cut by rows into one cut by columns, unevenly, and back.
func TestAllToAll(t *testing.T) {
	const rows, cols = 13, 11
	everywhere(t, func(t *testing.T, s suite) {
		for _, n := range []int{1, 2, 3, 5, 17} { // 17: some ranks have nothing
			for _, dt := range []kernels.DType{kernels.F32, kernels.BF16} {
				err := s.run(t, n, func(g *kernels.Group, be kernels.Backend) error {
					return transpose(g, be, dt, rows, cols)
				})
				if err != nil {
					t.Errorf("%d ranks, %v: %v", n, dt, err)
				}
			}
		}
	})
}

func cut(n, ranks, r int) (lo, hi int) { return n * r / ranks, n * (r + 1) / ranks }

func transpose(g *kernels.Group, be kernels.Backend, dt kernels.DType, rows, cols int) error {
	r0, r1 := cut(rows, g.Size(), g.Rank())
	c0, c1 := cut(cols, g.Size(), g.Rank())
	mine := filled(be, dt, r0*cols, r1-r0, cols)
	other, back := be.Alloc(dt, rows, c1-c0), be.Alloc(dt, r1-r0, cols)
	for step := range 3 {
		g.Step(step)
		byRow, byCol := make([][]kernels.Part, 2), make([][]kernels.Part, 1)
		for peer := range g.Size() {
			pr0, pr1 := cut(rows, g.Size(), peer)
			pc0, pc1 := cut(cols, g.Size(), peer)
			byRow[0] = append(byRow[0], kernels.Part{Peer: peer, View: mine.Narrow(1, pc0, pc1-pc0)})
			byRow[1] = append(byRow[1], kernels.Part{Peer: peer, View: back.Narrow(1, pc0, pc1-pc0)})
			byCol[0] = append(byCol[0], kernels.Part{Peer: peer, View: other.Narrow(0, pr0, pr1-pr0)})
		}
		if err := g.Exchange("to columns", byRow[0], byCol[0]); err != nil {
			return err
		}
		if err := expect(be, other, func(i int) float32 {
			return float32((i/max(1, c1-c0)*cols + c0 + i%max(1, c1-c0)) % 251)
		}); err != nil {
			return err
		}
		if err := g.Exchange("to rows", byCol[0], byRow[1]); err != nil {
			return err
		}
		if err := expect(be, back, func(i int) float32 { return float32((r0*cols + i) % 251) }); err != nil {
			return err
		}
	}
	return nil
}

// TestCollectives: what each gives, with parts of different sizes, some empty.
func TestCollectives(t *testing.T) {
	everywhere(t, func(t *testing.T, s suite) {
		for _, n := range []int{1, 2, 5} {
			err := s.run(t, n, func(g *kernels.Group, be kernels.Backend) error {
				parts := make([]kernels.Tensor, n)
				for r := range parts {
					parts[r] = filled(be, kernels.F32, 200, r, 3)
					if r == g.Rank() {
						parts[r] = filled(be, kernels.F32, 10*r, r, 3)
					}
				}
				if err := g.AllGather("gather", parts); err != nil {
					return err
				}
				for r, p := range parts {
					if err := expect(be, p, func(i int) float32 { return float32(10*r + i) }); err != nil {
						return err
					}
				}
				if err := g.Barrier("barrier"); err != nil {
					return err
				}
				x := filled(be, kernels.F16, 5*g.Rank(), 4)
				if err := g.Broadcast("cast", n-1, x); err != nil {
					return err
				}
				return expect(be, x, func(i int) float32 { return float32(5*(n-1) + i) })
			})
			if err != nil {
				t.Errorf("%d ranks: %v", n, err)
			}
		}
	})
}

// TestTraffic counts the bytes sent to others, not those that stay.
func TestTraffic(t *testing.T) {
	everywhere(t, func(t *testing.T, s suite) {
		err := s.run(t, 3, func(g *kernels.Group, be kernels.Backend) error {
			if err := transpose(g, be, kernels.BF16, 6, 9); err != nil {
				return err
			}
			want := kernels.Traffic{Exchanges: 6, Bytes: 3 * 2 * 2 * (2*9 - 2*3)}
			if got := g.Traffic(); got != want {
				return fmt.Errorf("%+v, want %+v", got, want)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// TestFaults: whatever one rank does, all the others stop well before their patience ends where it can be
// known, at its end where it cannot, and the error says what happened.
func TestFaults(t *testing.T) {
	boom := errors.New("boom")
	late := func(ctx context.Context) { <-ctx.Done() }
	for name, c := range map[string]struct {
		fault    func(ctx context.Context, g *kernels.Group, be kernels.Backend) error
		patience time.Duration
		want     string
	}{
		"error": {func(context.Context, *kernels.Group, kernels.Backend) error { return boom }, patience, "boom"},
		"panic": {func(context.Context, *kernels.Group, kernels.Backend) error {
			panic("ouch")
		}, patience, "panic: ouch"},
		"failed device": {func(_ context.Context, g *kernels.Group, be kernels.Backend) error {
			be.Copy(be.Alloc(kernels.F32, 2), be.Alloc(kernels.F32, 3))
			return g.Barrier("work")
		}, patience, "copy"},
		"other plan": {func(_ context.Context, g *kernels.Group, _ kernels.Backend) error {
			g.Follow(7)
			return g.Barrier("work")
		}, patience, "do not follow one plan"},
		"other step": {func(_ context.Context, g *kernels.Group, _ kernels.Backend) error {
			g.Step(4)
			return g.Barrier("work")
		}, patience, "do not follow one plan"},
		"other operation": {func(_ context.Context, g *kernels.Group, _ kernels.Backend) error {
			return g.Barrier("rest")
		}, patience, "do not follow one plan"},
		"other shape": {func(_ context.Context, g *kernels.Group, be kernels.Backend) error {
			return g.Exchange("work", []kernels.Part{{Peer: 0, View: be.Alloc(kernels.F32, 4)}}, nil)
		}, patience, "expected"},
		"hang": {func(ctx context.Context, _ *kernels.Group, _ kernels.Backend) error {
			late(ctx)
			return ctx.Err()
		}, 200 * time.Millisecond, "have not come"},
	} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, func(t *testing.T, s suite) {
				s.patience = c.patience
				s.fail(t, c.fault, c.want)
			})
		})
	}
}

// fail lets one of four ranks fall into fault and checks how the others end.
func (s suite) fail(t *testing.T, fault func(context.Context, *kernels.Group, kernels.Backend) error,
	want string) {
	began := time.Now()
	ends, devices := s.ends(t, 4)
	defer closeAll(ends)
	stopped := make(chan error, 4)
	ctx := t.Context()
	err := kernels.RunRanks(ctx, ends, grace, func(ctx context.Context, i int, tr kernels.Transport) error {
		be := devices[i]
		defer be.Scope()()
		err := kernels.NewGroup(ctx, tr, be, patience).Barrier("work")
		g := kernels.NewGroup(ctx, tr, be, s.patience)
		if err == nil && i == 2 {
			return fault(ctx, g, be)
		}
		if err == nil {
			err = g.Barrier("work")
		}
		if err == nil {
			err = g.Barrier("more")
		}
		stopped <- err
		return err
	})
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
	for range 3 {
		if err := <-stopped; err == nil {
			t.Error("a rank went on")
		}
	}
	if took := time.Since(began); took > patience/2 {
		t.Errorf("the group ended after %v", took)
	}
}

// TestCancel: the end of the run ends a group that waits, or is about to.
func TestCancel(t *testing.T) {
	everywhere(t, func(t *testing.T, s suite) {
		ctx, cancel := context.WithCancelCause(t.Context())
		ends, devices := s.ends(t, 3)
		defer closeAll(ends)
		time.AfterFunc(20*time.Millisecond, func() { cancel(errors.New("enough")) })
		err := kernels.RunRanks(ctx, ends, grace, func(ctx context.Context, i int, tr kernels.Transport) error {
			if i == 0 {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			return kernels.NewGroup(ctx, tr, devices[i], s.patience).Barrier("work")
		})
		if err == nil || !strings.Contains(err.Error(), "enough") {
			t.Errorf("error %v", err)
		}
	})
}

// clumsy is a backend that panics where it should copy.
type clumsy struct{ kernels.Backend }

func (clumsy) Copy(dst, src kernels.Tensor) { panic("ouch") }

// TestPanicInACopy: a rank that panics while it takes what others send holds nobody up.
func TestPanicInACopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := kernels.RunRanks(t.Context(), Shared(3), grace, func(ctx context.Context, i int, tr kernels.Transport) error {
			be := kernels.Backend(cpu.New(1))
			defer be.Scope()()
			x, y := be.Alloc(kernels.F32, 4), be.Alloc(kernels.F32, 4)
			if i == 1 {
				be = clumsy{be}
			}
			after, before := []kernels.Part{{Peer: (i + 1) % 3, View: x}}, []kernels.Part{{Peer: (i + 2) % 3, View: y}}
			return kernels.NewGroup(ctx, tr, be, patience).Exchange("ring", after, before)
		})
		if err == nil || !strings.Contains(err.Error(), "panic: ouch") || errors.As(err, new(*kernels.LostError)) {
			t.Errorf("error %v", err)
		}
	})
}

// TestLost: a rank that does not even stop when told to is given up, and named.
func TestLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		err := kernels.RunRanks(t.Context(), Shared(3), grace,
			func(_ context.Context, i int, _ kernels.Transport) error {
				switch i {
				case 1:
					<-release
				case 2:
					return errors.New("boom")
				}
				return nil
			})
		var lost *kernels.LostError
		if !errors.As(err, &lost) || len(lost.Ranks) != 1 || lost.Ranks[0] != 1 {
			t.Errorf("error %v", err)
		}
	})
}
