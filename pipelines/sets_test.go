package pipelines_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"latentbeam/internal/devices"

	"latentbeam/internal/cluster"
	"latentbeam/kernels"
	"latentbeam/pipelines/remote"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
	"latentbeam/stages/catalog"
)

// setTable has 5 frames of 6 patches and 2 of 1, rows with and without guidance, and a row alone.
const setTable = `id,prompt,width,height,num_frames,guidance_scale
a,a red circle moves left,48,32,5,
b,a blue square moves up,48,32,5,
c,a green triangle,48,32,5,1
d,a yellow circle,,,,
`

// TestSameBytesOnAnySet: the number of workers on one batch does not show in the output, nor how they
// share it.
func TestSameBytesOnAnySet(t *testing.T) {
	base := newJob(t, setTable)
	base.mustRun(t)
	want := mustRead(t, base.out)
	for _, c := range []string{
		"resources.workers=2 stages.denoise.sequence_parallel=2",
		"resources.workers=3 stages.denoise.sequence_parallel=3",
		"resources.workers=4 stages.denoise.sequence_parallel=3 stages.denoise.partition=pad",
		"resources.workers=5 stages.denoise.sequence_parallel=5 resources.threads=1",
		"resources.workers=7 stages.denoise.sequence_parallel=7 resources.batch_size=1",
		"resources.workers=8 stages.denoise.sequence_parallel=8",
		"resources.workers=6 stages.denoise.sequence_parallel=auto resources.batch_size=1",
	} {
		j := base.elsewhere(t)
		j.stages = "[encode_text, denoise: {}, decode_vae, guard, encode_video]"
		j.sets = strings.Fields(c)
		j.mustRun(t)
		if wrong := want.diff(mustRead(t, j.out)); wrong != nil {
			t.Errorf("%s:\n%s", c, strings.Join(wrong, "\n"))
		}
	}
}

// startWorker starts a worker of this process and returns its address. It ends with the test, or with stop. specs are
// taken instead of those of the catalogue.
func startWorker(t *testing.T, token string, devices int, specs []stages.Spec) (addr string, stop func()) {
	t.Helper()
	known, err := cluster.ReadToken(token)
	must(t, err)
	return workerWith(t, known, devices, 0, specs)
}

// workerWith is startWorker with so many bytes of memory for batches on each device; 0: as there is.
func workerWith(t *testing.T, token cluster.Token, count int, memory int64, specs []stages.Spec) (addr string,
	stop func()) {
	t.Helper()
	node, err := cluster.Listen("127.0.0.1:0", token)
	must(t, err)
	local, err := devices.NewCPU(count, 1, memory)
	must(t, err)
	return workerOf(t, node, local, specs)
}

// workerOf is startWorker with these devices.
func workerOf(t *testing.T, node *cluster.Node, local devices.Pool, specs []stages.Spec) (addr string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	w := remote.Worker{Node: node, Devices: local, Specs: append(slices.Clone(specs), catalog.All()...)}
	go func() { done <- w.Serve(ctx) }()
	ended := false
	stop = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the worker ended with %v", err)
		}
		node.Close()
	}
	t.Cleanup(stop)
	return node.Addr(), stop
}

// tokenFile writes a token.
func tokenFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	must(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

const workerToken = "a secret of the tests"

// onHosts makes the job use workers of other processes.
func (j job) onHosts(token string, sets string, addrs ...string) job {
	j.sets = append(strings.Fields(sets), "resources.threads=1", fmt.Sprintf(`resources.hosts=["%s"]`, strings.Join(addrs, `","`)),
		fmt.Sprintf("resources.token_file=%q", token))
	j.stages = "[encode_text, denoise: {}, decode_vae, guard, encode_video]"
	return j
}

// TestSameBytesOverTCP: ranks in other processes show no more than others; nor does a batch that is wholly
// elsewhere. Nothing of a set stays behind.
func TestSameBytesOverTCP(t *testing.T) {
	base := newJob(t, setTable)
	base.mustRun(t)
	want := mustRead(t, base.out)
	token := tokenFile(t, workerToken)
	a, stopA := startWorker(t, token, 1, nil)
	b, stopB := startWorker(t, token, 2, nil)
	before := calm()
	for _, c := range []string{
		"stages.denoise.sequence_parallel=4",
		"stages.denoise.sequence_parallel=3 stages.denoise.partition=pad resources.batch_size=1",
		"stages.denoise.sequence_parallel=2 resources.batch_size=1", // b alone has two
		"stages.denoise.sequence_parallel=1 resources.batch_size=1",
		"stages.denoise.sequence_parallel=3 resources.workers=0", // all of it on other hosts
	} {
		j := base.elsewhere(t).onHosts(token, c, a, b)
		j.mustRun(t)
		if wrong := want.diff(mustRead(t, j.out)); wrong != nil {
			t.Errorf("%s:\n%s", c, strings.Join(wrong, "\n"))
		}
	}
	settle(t, before)
	stopA()
	stopB()
}

// TestWorkerIsRefused: a worker that does not know the token, has other weights or is not there is an
// error in the configuration, before any work.
func TestWorkerIsRefused(t *testing.T) {
	base := newJob(t, setTable)
	token := tokenFile(t, workerToken)
	addr, _ := startWorker(t, token, 1, nil)
	idle := base.elsewhere(t)
	idle.sets = []string{"resources.workers=0"}
	for want, j := range map[string]job{
		"the tokens differ":  base.onHosts(tokenFile(t, "another secret of the tests"), "", addr),
		"connection refused": base.onHosts(token, "resources.workers=0", "127.0.0.1:1"),
		"16 to":              base.onHosts(tokenFile(t, "short"), "", addr),
		"write host:port":    base.onHosts(token, "", "localhost"),
		"there are no hosts": idle,
		"wants 3 workers for a batch, the job has 2": base.onHosts(token, "stages.denoise.sequence_parallel=3", addr),
	} {
		_, err := j.open()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
		if later := fault.ExitCode(err) == fault.ExitTryAgain; later != (want == "connection refused") {
			t.Errorf("%v: exit code %d", err, fault.ExitCode(err))
		}
	}
}

// breaking is the denoiser with ranks that fail on their first batches.
type breaking struct {
	stages.Stage
	fail func(ctx context.Context, g *kernels.Group) error
}

func (b breaking) Capabilities() stages.Capabilities { return spreading(b.Stage, b.runSet) }

// spreading is what a stage can that spreads its batches as another does, by another function, and nothing else.
func spreading(s stages.Stage, run func(context.Context, *stages.Set, []*stages.Element) error) stages.Capabilities {
	return stages.Capabilities{Spread: &stages.Spread{Width: s.Capabilities().Spread.Width, Run: run}}
}

// runSet lets the ranks meet once more than the denoiser does, and some of them never come.
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

// denoiser is the denoiser with a stage around it.
func denoiser(around func(s stages.Stage) stages.Stage) stages.Spec {
	spec, _ := stages.Find(catalog.All(), "denoise")
	open := spec.New
	spec.New = func(m *stages.Model, o stages.Options) (stages.Stage, error) {
		s, err := open(m, o)
		if err != nil {
			return nil, err
		}
		return around(s), nil
	}
	return spec
}

// calm returns how many goroutines there are once those of what came before have ended, as far as nobody has to be asked.
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

// settle waits until there are no more goroutines than before. The helpers of a processor's device end when the
// collector finds that nobody has it. Looks are counted, not time: a process may be stopped for minutes meanwhile.
func settle(t *testing.T, before int) {
	t.Helper()
	const looks = 6000 // a minute and more
	for n := 0; runtime.NumGoroutine() > before; n++ {
		if n == looks {
			stacks := make([]byte, 1<<20)
			stacks = stacks[:runtime.Stack(stacks, true)]
			t.Fatalf("%d goroutines, there were %d:\n%s", runtime.NumGoroutine(), before, stacks)
		}
		runtime.GC()
		time.Sleep(10 * time.Millisecond)
	}
}

// TestASetThatFails: a rank that panics, fails, hangs until it is told to stop, or has another plan costs an attempt; the job
// ends complete, with the right bytes.
func TestASetThatFails(t *testing.T) {
	base := newJob(t, setTable)
	base.mustRun(t)
	want := mustRead(t, base.out)
	for name, fail := range map[string]func(ctx context.Context, g *kernels.Group) error{
		"panic": func(context.Context, *kernels.Group) error { panic("a rank panics") },
		"error": func(context.Context, *kernels.Group) error { return fmt.Errorf("a rank fails") },
		"wrong hash": func(_ context.Context, g *kernels.Group) error {
			g.Follow(uint64(g.Rank()))
			return nil // the barrier finds it
		},
		"hang": func(ctx context.Context, g *kernels.Group) error {
			if g.Rank() != 1 {
				return fmt.Errorf("a rank hangs, another gives up")
			}
			<-ctx.Done()
			return ctx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			var failures atomic.Int64
			spec := denoiser(func(s stages.Stage) stages.Stage {
				return breaking{s, func(ctx context.Context, g *kernels.Group) error {
					if failures.Add(1) > 5 {
						return nil
					}
					return fail(ctx, g)
				}}
			})
			j := base.elsewhere(t)
			j.replace = &spec
			j.stages = "[encode_text, denoise: {sequence_parallel: 3}, decode_vae, guard, encode_video]"
			j.sets = []string{"resources.workers=3", "resources.batch_size=2"}
			before := calm()
			j.mustRun(t)
			if failures.Load() < 3 {
				t.Error("nothing failed")
			}
			if wrong := want.diff(mustRead(t, j.out)); wrong != nil {
				t.Error(strings.Join(wrong, "\n"))
			}
			settle(t, before)
		})
	}
}
