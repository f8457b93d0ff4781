package restarts

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/kernels"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
	"latentbeam/stages/catalog"
)

// standing is the stage denoise, but one rank stands still after a step until the batch is cancelled. It is the last of the ranks to
// finish the step, so all ranks have finished it.
type standing struct {
	stages.Stage
	step    int
	ranks   *atomic.Int64
	reached chan bool
}

// standingSpec returns the stage denoise that stops once after a step.
func standingSpec(step int, ranks int64) (stages.Spec, chan bool) {
	reached := make(chan bool, 1)
	var left atomic.Int64
	left.Store(ranks)
	all := catalog.All()
	spec := all[slices.IndexFunc(all, func(s stages.Spec) bool { return s.Name == "denoise" })]
	open := spec.New
	spec.New = func(m *stages.Model, o stages.Options) (stages.Stage, error) {
		s, err := open(m, o)
		return standing{s, step, &left, reached}, err
	}
	return spec, reached
}

// under returns a context that makes one rank stop after the step.
func (s standing) under(ctx context.Context) context.Context {
	return stages.WithProgress(ctx, func(done, _ int) {
		if done == s.step && s.ranks.Add(-1) == 0 {
			s.reached <- true
			<-ctx.Done()
		}
	})
}

// Run implements stages.Stage.
func (s standing) Run(ctx context.Context, dev kernels.Backend, batch []*stages.Element) error {
	return s.Stage.Run(s.under(ctx), dev, batch)
}

// Capabilities implements stages.Stage.
func (s standing) Capabilities() stages.Capabilities {
	c := s.Stage.Capabilities()
	spread := *c.Spread
	c.Spread = &spread
	run := spread.Run
	spread.Run = func(ctx context.Context, set *stages.Set, batch []*stages.Element) error {
		return run(s.under(ctx), set, batch)
	}
	return c
}

// TestStoppingSavesOnHosts: with ranks on other hosts, the last finished step is saved during the next one if the job is stopped, the
// job is cancelled, the worker is stopped, or a worker with another rank dies. The test disables saving at intervals. The
// next set resumes after that step.
func TestStoppingSavesOnHosts(t *testing.T) {
	const step = 20
	token := jobtest.TokenFile(t, jobtest.WorkerToken)
	stopAndWait := func(stop, cancel, _ func(), kept <-chan bool) {
		stop()
		select {
		case <-kept:
		case <-time.After(20 * time.Second):
			t.Error("nothing was saved in the middle of a step")
		}
		cancel()
	}
	base := jobtest.Job{Prompts: jobtest.WriteTable(t, "prompts.csv", stepsTable)}
	for _, c := range []struct {
		name string
		sets string
		here bool // the rank that stops is in the process of the job; otherwise it is on the worker
		end  func(stop, cancel, worker func(), kept <-chan bool)
		ends bool // the run is stopped; otherwise it goes on without the worker
	}{
		{"the job is stopped", "resources.workers=0 stages.denoise.sequence_parallel=2", false,
			stopAndWait, true},
		{"the context of the job is cancelled", "resources.workers=0 stages.denoise.sequence_parallel=2", false,
			func(_, cancel, _ func(), _ <-chan bool) { cancel() }, true},
		{"a job with a pipeline is stopped", "resources.workers=0 stages.denoise.pp_size=2", false,
			stopAndWait, true},
		{"the worker is stopped", "resources.workers=1", false, func(_, _, worker func(), _ <-chan bool) { worker() }, false},
		{"the worker of another rank ends", "resources.workers=1 stages.denoise.sequence_parallel=3", true,
			func(_, _, worker func(), _ <-chan bool) { worker() }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			ranks := int64(2)
			if c.here || strings.Contains(c.sets, "pp_size") { // the first stage of a pipeline alone has a sampler
				ranks = 1
			}
			spec, reached := standingSpec(step, ranks)
			var there []stages.Spec
			if !c.here {
				there = []stages.Spec{spec}
			}
			addr, worker := jobtest.StartWorker(t, token, 2, there)
			j := base.Elsewhere(t).OnHosts(token, c.sets, addr)
			if !strings.Contains(c.sets, "parallel") && !strings.Contains(c.sets, "pp_size") {
				j.Sets = append(j.Sets, "stages.denoise.sequence_parallel=2")
			}
			j.Sets = append(j.Sets, "defaults.num_inference_steps=50", "resources.checkpoint_interval=1h")
			again := j
			if c.here {
				j.Replace = &spec
			}
			opened, err := j.Open()
			jobtest.Must(t, err)
			defer opened.Close()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			kept := make(chan bool, 9)
			fault.SetHook(func(name string) {
				if name == fault.StepsKept {
					kept <- true
				}
			})
			defer fault.SetHook(nil)
			done := make(chan bool)
			go func() {
				defer close(done)
				select {
				case <-reached:
					c.end(opened.Stop, cancel, worker, kept)
				case <-time.After(time.Minute):
					t.Error("nothing was sampled")
					cancel()
				}
			}()
			began := time.Now()
			_, err = opened.Run(ctx, nil)
			<-done
			if c.ends != errors.Is(err, context.Canceled) || time.Since(began) > 2*time.Minute {
				t.Errorf("the run ended with %v after %v", err, time.Since(began))
			}
			opened.Close()
			if c.ends {
				worker()
				again.Sets = []string{"defaults.num_inference_steps=50", "resources.workers=1"}
				again.Stages = strings.Replace(again.Stages, "denoise: {}", "denoise", 1)
				again.MustRun(t)
			}
			if n := steps(t, j.Out); n != step {
				t.Errorf("the next set resumed after step %d, want %d", n, step)
			}
		})
	}
}
