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

// carrier returns the ends of a group whose ranks compute on these devices. The end of a rank is its kernels.Transport to all others.
type carrier func(t testing.TB, devices []kernels.Backend) []kernels.Transport

// carriers returns the transports that the suite tests. In "mixed" and "linked", two ranks share a process.
func carriers() map[string]carrier {
	return map[string]carrier{
		"shared": func(_ testing.TB, d []kernels.Backend) []kernels.Transport { return Shared(len(d)) },
		"tcp":    func(t testing.TB, d []kernels.Backend) []kernels.Transport { return loopback(t, len(d), 1) },
		"mixed":  func(t testing.TB, d []kernels.Backend) []kernels.Transport { return loopback(t, len(d), 2) },
		"linked": func(t testing.TB, d []kernels.Backend) []kernels.Transport { return linkedTo(t, d, 2) },
	}
}

// Both times are far longer than a busy machine needs, and no test that passes waits for them.
const (
	grace    = time.Minute     // time for a failed group to end
	patience = 4 * time.Minute // time that a rank waits for another
)

// everywhere runs f with every transport and backend, and checks that no goroutine is left. "late" is a backend that computes only when a
// result is read.
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
			t.Fatalf("%d goroutines, before the test there were %d:\n%s", runtime.NumGoroutine(), before,
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

// run runs f on n ranks at the same time, and closes their ends. It returns the error of the group.
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

// closeAll closes the ends that have a Close.
func closeAll(ends []kernels.Transport) {
	for _, e := range ends {
		if c, ok := e.(interface{ Close() error }); ok {
			c.Close()
		}
	}
}

// filled returns a tensor whose elements count up from first, modulo 251.
func filled(be kernels.Backend, dt kernels.DType, first int, shape ...int) kernels.Tensor {
	t := be.Alloc(dt, shape...)
	values := make([]float32, t.Len())
	for i := range values {
		values[i] = float32((first + i) % 251) // exact in every type
	}
	be.Upload(t, values)
	return t
}

// expect returns an error if an element of t is not want(its index).
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

// TestAllToAll: the ranks have the rows of a matrix. They exchange them for its columns, and back. The numbers of rows and columns are primes, so
// that ranks have unequal parts.
func TestAllToAll(t *testing.T) {
	const rows, cols = 13, 11
	everywhere(t, func(t *testing.T, s suite) {
		for _, n := range []int{1, 2, 3, 5, 17} { // of 17 ranks, some have no row
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

// cut returns which of n rows or columns rank r has: lo to hi-1.
func cut(n, ranks, r int) (lo, hi int) { return n * r / ranks, n * (r + 1) / ranks }

// transpose exchanges the rank's rows of a matrix for its columns, and back, three times, and checks the values.
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

// TestCollectives: AllGather, with parts of different sizes of which one is empty, Barrier and Broadcast.
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

// TestTraffic: Traffic counts the exchanges and the bytes that are sent to other ranks, without those that a rank sends to itself.
func TestTraffic(t *testing.T) {
	everywhere(t, func(t *testing.T, s suite) {
		err := s.run(t, 3, func(g *kernels.Group, be kernels.Backend) error {
			if err := transpose(g, be, kernels.BF16, 6, 9); err != nil {
				return err
			}
			// 3 times there and back; of its 2 x 9 elements of 2 bytes, a rank keeps 2 x 3.
			want := kernels.Traffic{Exchanges: 6, Bytes: 3 * 2 * 2 * (2*9 - 2*3)}
			if got := g.Traffic(); got != want {
				return fmt.Errorf("got %+v, want %+v", got, want)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// TestFaults: one rank of four fails in one of several ways, and all others stop with an error. They stop at once, except where the rank just
// hangs: then they stop when their patience ends. The error of the group says what happened.
func TestFaults(t *testing.T) {
	boom := errors.New("boom")
	late := func(ctx context.Context) { <-ctx.Done() }
	for name, c := range map[string]struct {
		fault    func(ctx context.Context, g *kernels.Group, be kernels.Backend) error
		patience time.Duration // of the other ranks
		want     string        // part of the error
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

// fail runs fault on one of four ranks, and checks that the others stop and that the error of the group has want.
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
			t.Error("a rank ended without an error")
		}
	}
	if took := time.Since(began); took > patience/2 {
		t.Errorf("the group ended after %v, want at most %v", took, patience/2)
	}
}

// TestCancel: the end of the context ends the ranks of a group that wait in a barrier.
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
			t.Errorf("got error %v, want the cause of the context", err)
		}
	})
}

// clumsy is a backend whose Copy panics.
type clumsy struct{ kernels.Backend }

func (clumsy) Copy(dst, src kernels.Tensor) { panic("ouch") }

// TestPanicInACopy: three ranks send to each other in a ring, and one panics while it copies what it receives. The others do not wait for it.
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
			t.Errorf("got error %v, want the panic and no lost rank", err)
		}
	})
}

// TestLost: rank 2 fails, and rank 1 does not stop within grace. The error names rank 1 as lost.
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
			t.Errorf("got error %v, want rank 1 lost", err)
		}
	})
}
