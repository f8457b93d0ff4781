package diffuse

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/sequence"
)

// TestStoppingSavesOnSets: if a batch of any kind, on a set of any form, is told to end while a rank is in a step, then
// before any rank continues all finished steps are saved, and also rows that are completely sampled. Another set resumes from
// there to the same bytes. The same holds if a rank fails although nobody has ended the process.
func TestStoppingSavesOnSets(t *testing.T) {
	full := strings.Replace(fullConfig, `"1.3"`, `"wan"`, 1)
	two := strings.Replace(full, `"depth": 3`, `"depth": 3, "boundary": 500`, 1)
	ways := []wayOf{{1, 1, 1}, {2, 1, 1}, {1, 2, 1}, {1, 1, 3}, {2, 2, 2}}
	for _, c := range []struct {
		name, config string
		steps        int
		together     int // rows in one sampling
		ways         []wayOf
		change       func(*plainOptions)
		batch        func([]*stages.Element)
	}{
		{"unipc", full, 5, 3, ways, nil, nil},
		{"easycache", full, 4, 1, []wayOf{{1, 1, 1}, {2, 1, 1}, {2, 2, 1}}, cacheOf(0.25, 2), nil},
		{"two denoisers", two, 6, 1, []wayOf{{1, 1, 1}, {2, 1, 1}, {1, 2, 1}}, nil, nil},
		{"clips with images", fullConfig, 2, 1, ways, func(o *plainOptions) { o.CondType = "i2v_head" }, func(batch []*stages.Element) {
			for i, e := range batch {
				e.Row.Loop, e.Row.ConditionFrameLength, e.Row.Reference = 2, 5, "r"
				e.References = []*stages.Array{{Shape: []int{2, 1, 4, 6}, Data: nntest.Hash(fmt.Sprint("ref", i), 1, 2, 1, 4, 6)}}
			}
		}},
	} {
		begin := func() []*stages.Element {
			batch := keyed(batchOf(3, 33, 4))
			for _, e := range batch {
				e.Row.NumInferenceSteps = c.steps
			}
			if c.batch != nil {
				c.batch(batch)
			}
			return batch
		}
		whole := begin()
		c.ways[0].run(t, c.config, c.change, nil, whole)
		want, all := digest(t, whole), c.steps*max(1, whole[0].Row.Loop)
		for i, w := range c.ways {
			undisturbed := w.until(t, c.config, c.change, begin(), 0, nil)
			if !undisturbed.whole {
				t.Fatalf("%v fails", w)
			}
			calls, apart := undisturbed.calls, undisturbed.calls/5
			if testing.Short() {
				apart = calls / 2
			}
			for _, fails := range []bool{false, true} {
				for n := 2 * calls / all; n < calls; n += max(1, apart) {
					t.Run(fmt.Sprintf("%s on %v at %d of %d, fails %v", c.name, w, n, calls, fails), func(t *testing.T) {
						batch := begin()
						got := w.until(t, c.config, c.change, batch, n, &fails)
						if got.whole {
							return
						}
						rest, done := begin(), 0
						var left []*stages.Element
						for _, e := range rest {
							s, there := got.saved[e.Key]
							switch {
							case !there:
								left = append(left, e)
							case s.Sampled:
								e.Latents, e.LatentScale = s.Latents, s.Scale
								done += all
							default:
								e.Begun = &s
								done += s.Count(c.steps)
								left = append(left, e)
							}
						}
						// Finished steps of rows, as each rank has reported them, except one step of one sampling.
						if at := 3 * all * n / calls; done < at-c.together {
							t.Errorf("%d steps of rows were saved where %d were done", done, at)
						}
						if len(left) > 0 {
							c.ways[(i+1)%len(c.ways)].run(t, c.config, c.change, nil, left)
						}
						if digest(t, rest) != want {
							t.Error("other bytes")
						}
					})
				}
			}
		}
	}
}

// TestLastSaveEnds: a store that does not answer delays the end of a job only for a limited time.
func TestLastSaveEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		k := newKeeper(ctx, &stages.Saving{Every: time.Hour, Save: func(ctx context.Context, _ []stages.Saved) { <-ctx.Done() }})
		k.retain([]stages.Saved{{}})
		cancel()
		began := time.Now()
		k.close(true)
		if took := time.Since(began); took != lastTime {
			t.Errorf("it took %v, want %v", took, lastTime)
		}
	})
}

// stopped is the result of a batch that was told to end.
type stopped struct {
	whole bool                         // it was completed
	calls int                          // reports of ranks that a step is done
	saved map[schemas.Key]stages.Steps // the newest of each row
}

// until samples a batch until ranks have reported n times that a step is done; 0: to the end. Then the process is told to end, or with
// fails the batch fails; the rank that reported last waits until steps are saved.
func (w wayOf) until(t *testing.T, config string, change func(*plainOptions), batch []*stages.Element, n int, fails *bool) (got stopped) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stopping, stop := context.WithCancel(t.Context())
	defer stop()
	var mu sync.Mutex
	got.saved = map[schemas.Key]stages.Steps{}
	saved := make(chan struct{})
	ctx = stages.WithProgress(ctx, func(int, int) {
		mu.Lock()
		got.calls++
		now := got.calls == n
		mu.Unlock()
		switch {
		case now && *fails:
			cancel()
		case now:
			stop()
			select {
			case <-saved:
			case <-time.After(30 * time.Second):
				t.Error("nothing was saved while a rank stood")
			}
			cancel()
		}
	})
	once := sync.OnceFunc(func() { close(saved) })
	err := w.runOn(ctx, t, config, change, &stages.Saving{Every: time.Hour, Stopping: stopping,
		Save: func(ctx context.Context, rows []stages.Saved) {
			mu.Lock()
			defer mu.Unlock()
			if ctx.Err() != nil {
				t.Error("the context of what is saved has ended")
			}
			for _, r := range rows {
				old := got.saved[r.Key]
				if old.Sampled || !r.Sampled && r.Count(10) <= old.Count(10) {
					t.Errorf("step %d is saved behind step %d", r.Count(10), old.Count(10))
				}
				got.saved[r.Key] = r.Steps
			}
			once()
		}}, batch)
	got.whole = err == nil
	return got
}

// runOn runs a batch as w says.
func (w wayOf) runOn(ctx context.Context, t *testing.T, config string, change func(*plainOptions), saving *stages.Saving,
	batch []*stages.Element) error {
	t.Helper()
	options := func(o *plainOptions) {
		o.SequenceParallel, o.TPSize, o.PPSize = schemas.AutoInt(w[0]), schemas.AutoInt(w[1]), schemas.AutoInt(w[2])
		if change != nil {
			change(o)
		}
	}
	var s *stage
	if strings.Contains(config, "boundary") {
		var err error
		if s, err = twoStage(t, twoFiles(t, config, "second."), options); err != nil {
			t.Fatal(err)
		}
	} else {
		s = stageOf(t, config, options)
	}
	ranks := w[0] * w[1] * w[2]
	set := stages.Alone(cpu.New(1))
	if ranks > 1 {
		set = setOf(sequence.Equal(ranks), func() kernels.Backend { return cpu.New(1) })
	}
	set.Saving = saving
	return s.RunSet(ctx, set, batch)
}
