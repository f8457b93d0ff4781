package diffuse

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/nn/nntest"
)

// savedSteps are the saved states of each row, in order.
type savedSteps struct {
	mu sync.Mutex
	of map[schemas.Key][]stages.Steps
}

func (s *savedSteps) saving(every time.Duration) *stages.Saving {
	s.of = map[schemas.Key][]stages.Steps{}
	return &stages.Saving{Every: every, Save: func(_ context.Context, rows []stages.Saved) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, r := range rows {
			s.of[r.Key] = append(s.of[r.Key], r.Steps)
		}
	}}
}

// keyed gives the rows of a batch keys.
func keyed(batch []*stages.Element) []*stages.Element {
	for i, e := range batch {
		e.Key[0] = byte(i + 1)
	}
	return batch
}

// wayOf is how a batch is shared: a grid of tokens, heads and blocks.
type wayOf [3]int

func (w wayOf) run(t *testing.T, config string, change func(*plainOptions), saving *stages.Saving, batch []*stages.Element) {
	t.Helper()
	if err := w.runOn(t.Context(), t, config, change, saving, batch); err != nil {
		t.Fatalf("%v: %v", w, err)
	}
}

// TestStepsSurvive: the state that a set saves after any step is the same for all sets, and every other set resumes from it
// to the bytes of an uninterrupted run, for every sampler, with given frames, and in any clip. Rows with fewer finished steps
// can be in the same batch.
func TestStepsSurvive(t *testing.T) {
	full := strings.Replace(fullConfig, `"1.3"`, `"wan"`, 1)
	version := func(v string) string { return strings.Replace(plainConfig, `"1.3"`, `"`+v+`"`, 1) }
	ways := []wayOf{{1, 1, 1}, {2, 1, 1}, {1, 2, 1}, {1, 1, 3}, {2, 2, 2}}
	two := strings.Replace(plainConfig, `"depth": 3`, `"depth": 3, "boundary": 500`, 1)
	two = strings.Replace(two, `"1.3"`, `"wan"`, 1)
	for _, c := range []struct {
		name, config string
		steps        int
		ways         []wayOf
		change       func(*plainOptions)
		batch        func([]*stages.Element)
	}{
		{"iddpm", version("1.0"), 5, ways, nil, nil},
		{"iddpm in fp32", version("1.1"), 4, ways[:2], nil, nil},
		{"rflow", version("1.2"), 3, ways, nil, nil},
		{"rflow that rescales", plainConfig, 3, ways, nil, nil},
		{"unipc", full, 5, append(ways, wayOf{7, 1, 1}), nil, nil},
		{"easycache", full, 12, append(ways, wayOf{7, 1, 1}), cacheOf(0.25, 2), nil},
		{"easycache with variances", version("1.0"), 12, append(ways, wayOf{7, 1, 1}), cacheOf(0.25, 2), nil},
		{"guidance_interval", full, 6, append(ways, wayOf{7, 1, 1}), intervalOf(0.2, 0.7), nil},
		{"easycache in guidance_interval", full, 12, []wayOf{{1, 1, 1}, {3, 1, 1}, {2, 1, 2}}, func(o *plainOptions) { cacheOf(5, 2)(o); intervalOf(0.2, 0.7)(o) }, nil},
		{"easycache of two denoisers", two, 12, []wayOf{{1, 1, 1}, {2, 1, 1}, {1, 2, 1}}, func(o *plainOptions) { cacheOf(5, 1)(o); intervalOf(0.3, 1)(o) }, nil},
		{"given frames", version("1.2"), 4, ways, nil, func(batch []*stages.Element) {
			for i, e := range batch {
				e.Row.Reference, e.Row.MaskStrategy = "r", "0,0,0,0,1,0.5"
				e.References = []*stages.Array{{Shape: []int{2, 5, 4, 6}, Data: nntest.Hash(fmt.Sprint("ref", i), 1, 2, 5, 4, 6)}}
			}
		}},
		{"two denoisers", two, 6, []wayOf{{1, 1, 1}, {2, 1, 1}, {1, 2, 1}, {2, 2, 1}}, nil, nil},
		{"clips", plainConfig, 2, ways, nil, func(batch []*stages.Element) {
			for _, e := range batch {
				e.Row.Loop, e.Row.ConditionFrameLength = 3, 5
			}
		}},
		{"clips in guidance_interval", plainConfig, 4, ways, intervalOf(0.3, 0.8), func(batch []*stages.Element) {
			for _, e := range batch {
				e.Row.Loop, e.Row.ConditionFrameLength = 3, 5
			}
		}},
		{"clips with images", plainConfig, 2, ways, func(o *plainOptions) { o.CondType = "i2v_head" }, func(batch []*stages.Element) {
			for i, e := range batch {
				e.Row.Loop, e.Row.ConditionFrameLength, e.Row.Reference = 2, 5, "r"
				e.References = []*stages.Array{{Shape: []int{2, 1, 4, 6}, Data: nntest.Hash(fmt.Sprint("ref", i), 1, 2, 1, 4, 6)}}
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
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
			var first savedSteps
			c.ways[0].run(t, c.config, c.change, first.saving(0), whole)
			want := digest(t, whole)
			clips := max(1, whole[0].Row.Loop)
			for _, w := range c.ways[1:] {
				var other savedSteps
				batch := begin()
				w.run(t, c.config, c.change, other.saving(0), batch)
				if digest(t, batch) != want || fmt.Sprint(printed(&other)) != fmt.Sprint(printed(&first)) {
					t.Errorf("%v saves other steps", w)
				}
			}
			for i, steps := range first.of[whole[0].Key] {
				batch := begin()
				for k, e := range batch[:2] { // the third starts over
					all := first.of[e.Key]
					one := all[(i+k)%len(all)]
					e.Begun = &one
				}
				w := c.ways[(i+1)%len(c.ways)]
				var other savedSteps
				w.run(t, c.config, c.change, other.saving(0), batch)
				if digest(t, batch) != want {
					t.Errorf("%v, resumed after step %d of clip %d: other bytes", w, steps.Done, steps.Clip)
				}
				for k, e := range batch {
					if !maps.Equal(e.Readings, whole[k].Readings) {
						t.Errorf("%v behind step %d of clip %d: row %d has the readings %v, want %v", w, steps.Done, steps.Clip, k, e.Readings, whole[k].Readings)
					}
				}
				if n := len(other.of[batch[0].Key]); n != len(first.of[batch[0].Key])-i-1 {
					t.Errorf("%v saves %d times behind step %d of clip %d", w, n, steps.Done, steps.Clip)
				}
			}
			if n := len(first.of[whole[0].Key]); n != clips*(c.steps-1) {
				t.Errorf("%d steps were saved of %d clips of %d", n, clips, c.steps)
			}
		})
	}
}

// printed are all steps in order, with the bits of their values.
func printed(s *savedSteps) (out []string) {
	for key, all := range s.of {
		for _, one := range all {
			text := fmt.Sprint(key, one.Clip, one.Done, one.Sampler, one.Latents)
			for _, m := range one.Memory {
				text += fmt.Sprint(m.Name, *m.Values)
			}
			for _, c := range one.Clips {
				text += fmt.Sprint(*c)
			}
			out = append(out, text)
		}
	}
	slices.Sort(out)
	return out
}

// TestStepsOfOthersAreIgnored: a saved state of another sampler or another size is ignored, and the row starts from the
// beginning.
func TestStepsOfOthersAreIgnored(t *testing.T) {
	whole := keyed(batchOf(1, 33, 4))
	var saved savedSteps
	wayOf{1, 1, 1}.run(t, plainConfig, nil, saved.saving(0), whole)
	want := digest(t, whole)
	for name, change := range map[string]func(s *stages.Steps){
		"another sampler":       func(s *stages.Steps) { s.Sampler = "rflow/0" },
		"too many steps":        func(s *stages.Steps) { s.Done = 3 },
		"another size":          func(s *stages.Steps) { s.Latents = stages.NewArray(2, 10, 4, 7) },
		"a clip that is not":    func(s *stages.Steps) { s.Clip, s.Clips = 1, []*stages.Array{s.Latents} },
		"clips of another size": func(s *stages.Steps) { s.Clip, s.Clips, s.Done = 1, []*stages.Array{stages.NewArray(1, 1, 1, 1)}, 0 },
	} {
		batch := keyed(batchOf(1, 33, 4))
		one := saved.of[batch[0].Key][0]
		change(&one)
		batch[0].Begun = &one
		var again savedSteps
		wayOf{1, 1, 1}.run(t, plainConfig, nil, again.saving(0), batch)
		if digest(t, batch) != want || len(again.of[batch[0].Key]) != 2 {
			t.Errorf("%s: other bytes, or it did not start over", name)
		}
	}
}

// TestSavingIsRare: a state is saved only after a certain amount of work, and saving never takes more than a hundredth of the
// time of the work.
func TestSavingIsRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			every, kept time.Duration // and how long keeping takes
			steps, want int
		}{{time.Minute, 0, 50, 8}, {2 * time.Minute, 0, 50, 4}, {time.Hour, 0, 50, 0}, {time.Minute, 50 * time.Second, 50, 8}, {time.Minute, 70 * time.Second, 50, 2}} {
			times := 0
			k := newKeeper(t.Context(), &stages.Saving{Every: c.every, Save: func(context.Context, []stages.Saved) {
				times++
				time.Sleep(c.kept)
			}})
			s := plainStage(t, nil)
			v := maker{stage: s, keeper: k, writes: true}.newSaver()
			j, err := s.newJob(keyed(batchOf(1, 33, 4)), 0)
			if err != nil {
				t.Fatal(err)
			}
			p := portion{job: j}
			after := v.after(p, make([]float32, j.values()))
			for i := 1; i < c.steps; i++ {
				time.Sleep(10 * time.Second)
				state := p.savedState()
				state.Done = i
				if err := after(state); err != nil {
					t.Fatal(err)
				}
			}
			k.close(false)
			if times != c.want {
				t.Errorf("every %v, kept in %v: saved %d times in %d steps of 10 s, want %d", c.every, c.kept, times, c.steps, c.want)
			}
		}
	})
}

// TestPausesAreSaved: rows that wait for the other rows of their group, between two denoisers, are saved once the group has
// worked long enough, on every set.
func TestPausesAreSaved(t *testing.T) {
	two := strings.Replace(plainConfig, `"depth": 3`, `"depth": 3, "boundary": 500`, 1)
	for _, w := range []wayOf{{1, 1, 1}, {2, 1, 1}, {1, 2, 1}} {
		batch := keyed(batchOf(3, 17, 4))
		for _, e := range batch {
			e.Row.NumInferenceSteps = 6
		}
		var saved savedSteps
		saving := saved.saving(time.Nanosecond)
		w.run(t, two, nil, saving, batch)
		want := digest(t, batch)
		for _, e := range batch {
			steps := saved.of[e.Key]
			if len(steps) == 0 {
				t.Fatalf("%v: nothing was saved", w)
			}
			e.Begun, e.Latents = &steps[len(steps)-1], nil
		}
		w.run(t, two, nil, nil, batch)
		if digest(t, batch) != want {
			t.Errorf("%v, resumed: other bytes", w)
		}
	}
	s, err := twoStage(t, twoFiles(t, two, ""), nil)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		j, err := s.newJob(keyed(batchOf(1, 17, 4)), 0)
		if err != nil {
			t.Fatal(err)
		}
		var saved savedSteps
		k := newKeeper(t.Context(), saved.saving(time.Minute))
		v := maker{stage: s, keeper: k, writes: true}.newSaver()
		began, p := time.Now(), portion{job: j}
		after := v.after(p, make([]float32, j.values()))
		pause := func(wait time.Duration, done, want int) {
			t.Helper()
			if done > 0 {
				state := p.savedState()
				state.Done = done
				if err := after(state); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(wait)
			v.saveWaiting(p, began)
			k.idle()
			if n := len(saved.of[j.batch[0].Key]); n != want {
				t.Errorf("saved %d times, want %d", n, want)
			}
		}
		pause(0, 0, 0)
		pause(time.Second, 2, 0)
		pause(time.Minute, 2, 1)
		pause(time.Minute, 0, 1) // it is saved already
	})
}

// TestStoppingSaves: when the process must end, the last finished step is saved during the next step, and then each later
// step, even if saving takes longer than a step or the context has ended.
func TestStoppingSaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var saved []int
		last := func() int {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if len(saved) == 0 {
				return 0
			}
			return saved[len(saved)-1]
		}
		stopping, stop := context.WithCancel(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		k := newKeeper(ctx, &stages.Saving{Every: time.Hour, Stopping: stopping,
			Save: func(ctx context.Context, rows []stages.Saved) {
				time.Sleep(15 * time.Second)
				mu.Lock()
				defer mu.Unlock()
				if ctx.Err() == nil {
					saved = append(saved, rows[0].Done)
				}
			}})
		m := maker{stage: plainStage(t, nil), keeper: k, writes: true}
		v := m.newSaver()
		j, err := m.newJob(keyed(batchOf(1, 33, 4)), 0)
		if err != nil {
			t.Fatal(err)
		}
		p := portion{job: j}
		z := make([]float32, j.values())
		after := v.after(p, z)
		step := func(i int) {
			state := p.savedState()
			state.Done = i
			if err := after(state); err != nil {
				t.Fatal(err)
			}
		}
		for i := 1; i <= 3; i++ {
			time.Sleep(10 * time.Second)
			step(i)
		}
		time.Sleep(5 * time.Second) // in the fourth step
		if n := last(); n != 0 {
			t.Fatalf("step %d was saved before the process was to end", n)
		}
		stop()
		time.Sleep(16 * time.Second) // the fourth step still computes
		if n := last(); n != 3 {
			t.Errorf("step %d was saved in the middle of step 4, want 3", n)
		}
		for i := 4; i <= 6; i++ {
			step(i)
			time.Sleep(10 * time.Second)
		}
		cancel()
		k.close(true)
		if n := last(); n != 6 {
			t.Errorf("step %d was saved in the end, want 6", n)
		}
	})
}
