package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// station opens the station of step number i of the engine.
func station(t *testing.T, e *Engine, i int) *Station {
	t.Helper()
	return e.Station(t.Context(), i)
}

// give hands f a batch of new elements.
func (s *Station) give(t *testing.T, emit func(*stages.Batch), prompts ...string) {
	t.Helper()
	b := &stages.Batch{Elements: s.engine.elements(prompts...)}
	if err := s.Submit(b, emit); err != nil {
		t.Fatal(err)
	}
}

func (s *Station) end(t *testing.T, emit func(*stages.Batch)) {
	t.Helper()
	if err := s.Close(emit); err != nil {
		t.Fatal(err)
	}
}

// collector is an emitter that keeps the elements.
type collector struct{ elements []*stages.Element }

func (c *collector) emit(b *stages.Batch) { c.elements = append(c.elements, b.Elements...) }

// TestStageBoundsWhatIsInFlight: with n devices n batches run and one waits; the next one is not accepted
// before a batch is finished.
func TestStageBoundsWhatIsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const workers, batches = 3, 20
		var running, most atomic.Int64
		sleep := func(_ context.Context, batch []*stages.Element) error {
			most.Store(max(most.Load(), running.Add(1)))
			time.Sleep(time.Second)
			running.Add(-1)
			latent(batch[0])
			return nil
		}
		e := newEngine(t, workers, step("sleep", fakeStage{run: sleep}))
		f, out := station(t, e, 0), &collector{}
		began := time.Now()
		for i := range batches {
			f.give(t, out.emit, fmt.Sprint(i))
			if f.inFlight > workers+1 {
				t.Fatalf("%d batches in flight", f.inFlight)
			}
			if i == workers && time.Since(began) > 0 {
				t.Error("a batch had to wait although a place was free")
			}
		}
		f.end(t, out.emit)
		if most.Load() != workers || len(out.elements) != batches {
			t.Errorf("%d at once, want %d; %d of %d came out", most.Load(), workers, len(out.elements), batches)
		}
		if took := time.Since(began); took != 7*time.Second { // 20 batches of a second on 3 devices
			t.Errorf("took %v", took)
		}
	})
}

// TestStagesOverlap: the second stage works on a batch while the first works on the next, although one
// goroutine drives both.
func TestStagesOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := fakeStage{run: func(_ context.Context, batch []*stages.Element) error {
			time.Sleep(time.Second)
			latent(batch[0])
			return nil
		}}
		first, second := step("first", work), step("second", work)
		second.Spec.In = stages.KindLatents
		e := newEngine(t, 2, first, second)
		f, g, out := station(t, e, 0), station(t, e, 1), &collector{}
		down := func(b *stages.Batch) {
			if err := g.Submit(b, out.emit); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		for i := range 6 {
			f.give(t, down, fmt.Sprint(i))
		}
		f.end(t, down)
		g.end(t, out.emit)
		if took := time.Since(began); took > 7*time.Second { // 12 runs of a second on 2 devices; 12 in a row
			t.Errorf("took %v", took)
		}
		if len(out.elements) != 6 {
			t.Errorf("%d elements came out", len(out.elements))
		}
	})
}

// TestStageKeepsEveryElement: in any order of batches, each element comes out once, with the result of a run alone.
func TestStageKeepsEveryElement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		e := newEngine(t, 4, step("sleep", fakeStage{run: func(ctx context.Context, batch []*stages.Element) error {
			time.Sleep(time.Duration(len(batch[0].Row.Prompt)) * time.Millisecond)
			for _, el := range batch {
				latent(el)
			}
			return nil
		}}))
		f, out := station(t, e, 0), &collector{}
		want := map[string]float32{}
		for i := range 100 {
			var prompts []string
			for k := range 1 + r.IntN(5) {
				prompts = append(prompts, fmt.Sprint(i, "-", k, strings.Repeat("x", r.IntN(2000))))
				want[prompts[k]] = float32(len(prompts[k]))
			}
			f.give(t, out.emit, prompts...)
		}
		f.end(t, out.emit)
		for _, el := range out.elements {
			if el.Failed != nil || el.Latents.Data[0] != want[el.Row.Prompt] {
				t.Fatalf("%.20s: %+v, %v", el.Row.Prompt, el.Failed, el.Latents)
			}
			delete(want, el.Row.Prompt)
		}
		if len(want) > 0 {
			t.Errorf("%d elements did not come out", len(want))
		}
	})
}

// TestStageFailsOneElement: an error, a panic, a NaN or nothing from the stage is one element's matter,
// whatever batch it was in.
func TestStageFailsOneElement(t *testing.T) {
	e := newEngine(t, 1, step("model", fakeStage{run: func(_ context.Context, batch []*stages.Element) error {
		for _, el := range batch {
			latent(el)
			switch el.Row.Prompt {
			case "panic":
				panic("boom")
			case "nil map":
				m := map[string]map[string]int{}
				m["absent"]["x"]++
			case "error":
				return errors.New("no")
			case "nan":
				el.Latents.Data[0] /= 0
			case "own":
				el.Fail("model", errors.New("not this one"))
			case "nothing":
				el.Latents = nil
			}
		}
		return nil
	}}))
	f, out := station(t, e, 0), &collector{}
	prompts := []string{"good", "panic", "nil map", "error", "nan", "own", "nothing", "another good"}
	f.give(t, out.emit, prompts...)
	f.end(t, out.emit)
	want := map[string]string{"panic": "panic: boom", "error": "no",
		"nil map": "panic: assignment to entry in nil map",
		"nan":     "value 0 of the latents is +Inf", "own": "not this one", "nothing": "the stage gave no latents"}
	for _, el := range out.elements {
		message := want[el.Row.Prompt]
		switch {
		case message == "" && el.Failed != nil, message != "" && el.Failed == nil:
			t.Errorf("%s: %+v", el.Row.Prompt, el.Failed)
		case message != "" && (el.Failed.Message != message || el.Failed.Stage != "model" ||
			el.Failed.Class != fault.ClassRow):
			t.Errorf("%s: %+v, want %s", el.Row.Prompt, el.Failed, message)
		}
	}
	if len(out.elements) != len(prompts) {
		t.Errorf("%d elements came out", len(out.elements))
	}
}

// TestPassEndsItsGoroutines: a bundle that a runner gives up leaves nothing running behind Pass, and rows it
// had let through are free for the next pass.
func TestPassEndsItsGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := false
		e := newEngine(t, 1, step("slow", fakeStage{run: func(ctx context.Context, batch []*stages.Element) error {
			<-ctx.Done()
			ended = true
			return context.Cause(ctx)
		}}))
		lost := errors.New("the runner gave up")
		err := e.Pass(t.Context(), func(ctx context.Context) error {
			f := e.Station(context.WithoutCancel(ctx), 0) // some runners' bundles outlive the pass
			els := e.elements("a")
			e.pending.claim(els[0].Key)
			if err := f.Submit(&stages.Batch{Elements: els}, func(*stages.Batch) {}); err != nil {
				t.Error(err)
			}
			e.Publisher(context.WithoutCancel(ctx))
			synctest.Wait()
			return lost
		})
		if !errors.Is(err, lost) || !ended || e.Settled() {
			t.Errorf("%v, ended %v, settled %v", err, ended, e.Settled())
		}
		if err := e.Pass(t.Context(), func(context.Context) error { return nil }); err != nil || !e.Settled() {
			t.Errorf("the next pass: %v, settled %v", err, e.Settled())
		}
	})
}
