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

	"latentbeam/internal/engine/memory"
	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
	"latentbeam/stages/cost"
)

// hungry is a stage that runs out of memory if a batch has more than room elements, or fewer than needs devices.
type hungry struct {
	fakeStage
	room   int // largest number of elements of a batch
	needs  int // smallest number of devices of a batch
	fixed  int // Width of the stage; 0: any number of devices
	mu     *sync.Mutex
	tried  *[]string // all attempts, such as "2 on 1": two elements on one device
	caused error     // error of the device
}

func newHungry(room, needs, fixed int) hungry {
	return hungry{room: room, needs: needs, fixed: fixed, mu: &sync.Mutex{}, tried: &[]string{},
		caused: errors.New("CUDA_ERROR_OUT_OF_MEMORY")}
}

func (h hungry) Capabilities() stages.Capabilities {
	return spread(h.fixed, func(_ context.Context, set *stages.Set, batch []*stages.Element) error {
		return h.on(set.Ranks(), batch)
	})
}

func (h hungry) Run(ctx context.Context, dev kernels.Backend, batch []*stages.Element) error {
	return h.on(1, batch)
}

func (h hungry) on(devices int, batch []*stages.Element) error {
	h.mu.Lock()
	*h.tried = append(*h.tried, fmt.Sprintf("%d on %d", len(batch), devices))
	h.mu.Unlock()
	latent(batch[0]) // half of a result, which a retry must discard
	if len(batch) > h.room || devices < h.needs {
		return fmt.Errorf("denoise: %w", fault.OutOfMemory(h.caused))
	}
	for _, e := range batch {
		latent(e)
	}
	return nil
}

// oneDevice is a stage whose batches cannot run on several devices.
type oneDevice struct{ stages.Stage }

func (oneDevice) Capabilities() stages.Capabilities { return stages.Capabilities{} }

// prompts returns n different prompts.
func prompts(n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprint("prompt ", i))
	}
	return out
}

// TestOutOfMemory: a batch that runs out of memory is halved until it fits. If one element alone does not fit, it gets more
// devices. If all devices are too few, it fails. The next batch starts with the size and the devices that worked.
func TestOutOfMemory(t *testing.T) {
	for _, c := range []struct {
		name    string
		stage   stages.Stage
		h       hungry
		workers int
		sizes   []int  // elements of each batch
		want    string // attempts
		failed  int    // elements
	}{
		{name: "halves", h: newHungry(2, 1, 0), workers: 1, sizes: []int{8},
			want: "8 on 1; 4 on 1; 2 on 1; 2 on 1; 2 on 1; 2 on 1"},
		{name: "odd halves", h: newHungry(2, 1, 0), workers: 1, sizes: []int{5}, want: "5 on 1; 2 on 1; 2 on 1; 1 on 1"},
		{name: "the next batch does not fail first", h: newHungry(3, 1, 0), workers: 1, sizes: []int{4, 4},
			want: "4 on 1; 2 on 1; 2 on 1; 2 on 1; 2 on 1"},
		{name: "more devices", h: newHungry(9, 3, 0), workers: 4, sizes: []int{2},
			want: "2 on 1; 1 on 1; 1 on 2; 1 on 4; 1 on 4"},
		{name: "all devices", h: newHungry(9, 3, 0), workers: 3, sizes: []int{1},
			want: "1 on 1; 1 on 2; 1 on 3"},
		{name: "too few devices", h: newHungry(9, 9, 0), workers: 2, sizes: []int{2},
			want: "2 on 1; 1 on 1; 1 on 2; 1 on 2", failed: 2},
		{name: "fixed number of devices", h: newHungry(9, 3, 2), workers: 4, sizes: []int{1}, want: "1 on 2", failed: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEngine(t, c.workers, step("denoise", fakeStage{}))
				e.Schedule.Steps[0].Stage = c.h
				f, out := station(t, e, 0), &collector{}
				for i, n := range c.sizes {
					var batch []string
					for _, p := range prompts(n) {
						batch = append(batch, fmt.Sprint(i, p))
					}
					f.give(t, out.emit, batch...)
					synctest.Wait()
				}
				f.end(t, out.emit)
				if got := strings.Join(*c.h.tried, "; "); got != c.want {
					t.Errorf("tried %s, want %s", got, c.want)
				}
				failed := 0
				for _, el := range out.elements {
					if el.Failed != nil {
						failed++
						if !strings.Contains(el.Failed.Error(), "OUT_OF_MEMORY") {
							t.Errorf("an element failed with %v, want OUT_OF_MEMORY", el.Failed)
						}
					} else if el.Latents == nil {
						t.Errorf("%s has no result", el.Row.Prompt)
					}
				}
				if failed != c.failed {
					t.Errorf("%d elements failed, want %d", failed, c.failed)
				}
			})
		})
	}
}

// wideBroken runs out of memory as a hungry stage does, and fails for another reason when it has enough devices.
type wideBroken struct{ hungry }

func (b wideBroken) Capabilities() stages.Capabilities { return spread(b.fixed, b.runSet) }

func (b wideBroken) Run(ctx context.Context, dev kernels.Backend, batch []*stages.Element) error {
	return b.runSet(ctx, stages.Alone(dev), batch)
}

func (b wideBroken) runSet(_ context.Context, set *stages.Set, batch []*stages.Element) error {
	if len(*b.tried) > 20 {
		return fault.Fatal(errors.New("more than 20 attempts"))
	}
	if err := b.on(set.Ranks(), batch); err != nil {
		return err
	}
	return errors.New("the ranks disagree")
}

// TestWideStageThatFails: an element needs four devices and fails on them. Its retries use four devices too, and after them the
// element fails.
func TestWideStageThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, 4, step("denoise", fakeStage{}))
		h := newHungry(9, 3, 0)
		e.Recovery.Retries, e.Schedule.Steps[0].Stage = 3, wideBroken{h}
		f, out := station(t, e, 0), &collector{}
		f.give(t, out.emit, "a cat")
		f.end(t, out.emit)
		if err := out.elements[0].Failed; err == nil || !strings.Contains(err.Error(), "disagree") {
			t.Errorf("the element failed with %v, want an error that says disagree", err)
		}
		if got, want := strings.Join(*h.tried, "; "), "1 on 1; 1 on 2; 1 on 4; 1 on 4; 1 on 4"; got != want {
			t.Errorf("tried %s, want %s", got, want)
		}
	})
}

// TestStageThatCannotShareFails: an element that does not fit on one device fails at once if its stage cannot use several.
func TestStageThatCannotShareFails(t *testing.T) {
	h := newHungry(0, 1, 0)
	e := newEngine(t, 4, step("encode", fakeStage{}))
	e.Schedule.Steps[0].Stage = oneDevice{h}
	f, out := station(t, e, 0), &collector{}
	f.give(t, out.emit, "a", "b")
	f.end(t, out.emit)
	if got := strings.Join(*h.tried, "; "); got != "2 on 1; 1 on 1; 1 on 1" || out.elements[0].Failed == nil {
		t.Errorf("tried %s, and the first element failed with %v; want 2 on 1; 1 on 1; 1 on 1, and an error", got, out.elements[0].Failed)
	}
}

// metering is a backend that reports *peak as the largest memory of its tensors, and sets it back to 0.
type metering struct {
	kernels.Backend
	peak *int64
}

func (m metering) Capabilities() kernels.Capabilities {
	return kernels.Capabilities{Peak: func() int64 { p := *m.peak; *m.peak = 0; return p }}
}

// meteringPool lends metering backends.
type meteringPool struct {
	*fakePool
	peak *int64
}

func (p meteringPool) LeaseThese(ctx context.Context, devices []int) (*stages.Set, func(bool), error) {
	set, release, err := p.fakePool.LeaseThese(ctx, devices)
	if err == nil {
		for i := range set.Devices {
			set.Devices[i] = metering{peak: p.peak}
		}
	}
	return set, release, err
}

// TestMeasuredPeakCorrectsTheEstimate: the memory that the first batch really took decides the size of the next ones.
func TestMeasuredPeakCorrectsTheEstimate(t *testing.T) {
	for _, c := range []struct {
		name  string
		takes int64 // bytes of an element; the estimate is 10
		want  int   // elements of the next batch, which has 100 bytes
	}{{"as estimated", 10, 10}, {"twice as much", 20, 5}, {"nothing is measured", 0, 10}, {"half as much", 5, 18}} {
		peak := new(int64)
		s := fakeStage{need: func(_ *schemas.PromptRow, n int) (int64, error) { return int64(10 * n), nil },
			run: func(_ context.Context, batch []*stages.Element) error {
				*peak = max(*peak, int64(len(batch))*c.takes)
				for _, e := range batch {
					latent(e)
				}
				return nil
			}}
		e := newEngine(t, 1, step("denoise", s))
		e.Schedule.Pool = meteringPool{newFakePool(1), peak}
		row := &e.elements("a")[0].Row
		if n, err := e.Schedule.BatchSize(row); n != 10 || err != nil {
			t.Fatalf("%s: a first batch of %d, %v; want 10", c.name, n, err)
		}
		f, out := station(t, e, 0), &collector{}
		*peak = 1 << 40 // left by an earlier batch; it must not count
		f.give(t, out.emit, prompts(4)...)
		f.end(t, out.emit)
		if n, err := e.Schedule.BatchSize(row); n != c.want || err != nil {
			t.Errorf("%s: a next batch of %d, %v; want %d", c.name, n, err, c.want)
		}
		facts := e.Schedule.Learned.Facts()
		if c.takes > 0 && (len(facts) != 1 || facts[0].Estimated != 40 || facts[0].Measured != 4*c.takes) {
			t.Errorf("%s: learned %+v, want 40 bytes estimated and %d measured", c.name, facts, 4*c.takes)
		}
	}
}

// TestBatchSizeAfterOutOfMemory: a batch of ten elements runs out of memory and fits in halves of at most three. The next batches are
// that small from the beginning, although the estimate allows more.
func TestBatchSizeAfterOutOfMemory(t *testing.T) {
	h := newHungry(3, 1, 0)
	h.need = func(_ *schemas.PromptRow, n int) (int64, error) { return int64(10 * n), nil }
	e := newEngine(t, 1, step("denoise", fakeStage{}))
	e.Schedule.Steps[0].Stage = h
	row := &e.elements("a")[0].Row
	f, out := station(t, e, 0), &collector{}
	f.give(t, out.emit, prompts(10)...)
	f.end(t, out.emit)
	if n, err := e.Schedule.BatchSize(row); n != 2 || err != nil {
		t.Errorf("the next batch has %d elements, %v; want 2", n, err)
	}
	want := memory.Fact{Stage: "denoise", Shape: schemas.BucketOf(*row).String(), Rows: "0 tokens, guided", Fails: 2,
		Most: 2, Limit: 1000}
	if facts := e.Schedule.Learned.Facts(); !slices.Equal(facts, []memory.Fact{want}) {
		t.Errorf("learned %+v, want %+v", facts, want)
	}
}

// streaming is a stage with eight blocks of weights that can be streamed, which frees memory. An element takes 20 bytes.
type streaming struct {
	fakeStage
	stay *int         // blocks that stay in memory
	room func() int64 // memory for elements
	peak *int64       // memory of the last batch
}

func (p streaming) Capabilities() stages.Capabilities {
	return stages.Capabilities{Loading: &stages.Loading{Staying: func() (stay, of int) { return *p.stay, 8 },
		Stream: func(stay int) { *p.stay = stay }}}
}

func (p streaming) Run(_ context.Context, _ kernels.Backend, batch []*stages.Element) error {
	if *p.peak = int64(20 * len(batch)); *p.peak > p.room() {
		return fault.OutOfMemory(errors.New("CUDA_ERROR_OUT_OF_MEMORY"))
	}
	for _, e := range batch {
		latent(e)
	}
	return nil
}

// TestMemoryThatWeightsFree: a batch runs out of memory, so blocks are streamed. The engine calls Freed, and the next batch is larger
// than it could be before: 90 bytes hold four elements of 20 measured bytes.
func TestMemoryThatWeightsFree(t *testing.T) {
	fake, stay, peak := newFakePool(1), 8, new(int64)
	fake.memory = cost.Memory{Target: 15, Limit: 15}
	pool := meteringPool{fake, peak}
	e := newEngine(t, 1, step("denoise", fakeStage{}))
	e.Schedule.Steps[0].Stage = streaming{stay: &stay, peak: peak, room: func() int64 { return fake.memory.Limit },
		fakeStage: fakeStage{need: func(_ *schemas.PromptRow, n int) (int64, error) { return int64(5 * n), nil }}}
	e.Schedule.Pool = pool
	var freed []int
	e.Recovery.Freed = func(step int, row schemas.PromptRow, stay int) {
		freed = append(freed, step, stay)
		fake.memory = cost.Memory{Target: 90, Limit: 90}
	}
	row := &e.elements("a")[0].Row
	if n, err := e.Schedule.BatchSize(row); n != 3 || err != nil {
		t.Fatalf("a first batch of %d, %v; want 3", n, err)
	}
	f, out := station(t, e, 0), &collector{}
	f.give(t, out.emit, prompts(3)...)
	f.end(t, out.emit)
	for _, el := range out.elements {
		if el.Failed != nil {
			t.Error(el.Failed)
		}
	}
	if n, err := e.Schedule.BatchSize(row); n != 4 || err != nil || !slices.Equal(freed, []int{0, 2}) || stay != 2 {
		t.Errorf("a next batch of %d, %v, Freed got %v, %d blocks stay; want 4, [0 2] and 2", n, err, freed, stay)
	}
}

// TestRecall: a run starts with the facts that the run before it learned. A fact that a batch did not fit is ignored if the devices
// of that run had less memory.
func TestRecall(t *testing.T) {
	for _, c := range []struct {
		name  string
		fact  memory.Fact
		batch int // elements of a batch; the estimate of 10 bytes an element allows 10
		least int // devices that an element needs; 0: not known
	}{
		{"nothing", memory.Fact{Stage: "another"}, 10, 0},
		{"twice as much", memory.Fact{Estimated: 40, Measured: 80}, 5, 0},
		{"it did not fit", memory.Fact{Most: 3, Limit: 1000}, 3, 0},
		{"one did not fit", memory.Fact{Alone: true, Limit: 5000}, 10, 0},
		{"it needs two devices", memory.Fact{Least: 2, Limit: 2000}, 10, 2},
		{"it did not fit smaller devices", memory.Fact{Most: 3, Least: 2, Limit: 900}, 10, 0},
		{"nonsense", memory.Fact{Estimated: -1, Measured: -5, Most: -3, Least: -1, Limit: 1000}, 10, 0},
	} {
		s := fakeStage{need: func(_ *schemas.PromptRow, n int) (int64, error) { return int64(10 * n), nil }}
		e := newEngine(t, 1, step("denoise", s))
		row := &e.elements("a")[0].Row
		c.fact.Shape = schemas.BucketOf(*row).String()
		if c.fact.Stage == "" {
			c.fact.Stage = "denoise"
		}
		e.Schedule.Recall([]memory.Fact{c.fact})
		want := c.fact // is passed on to the run after this
		want.Estimated, want.Measured = max(0, want.Estimated), max(0, want.Measured)
		if float64(want.Limit) < 1000/1.1 {
			want.Most, want.Least = 0, 0
		}
		want.Most, want.Least = max(0, want.Most), max(0, want.Least)
		if facts := e.Schedule.Learned.Facts(); !slices.Equal(facts, []memory.Fact{want}) {
			t.Errorf("%s: passed on %+v, want %+v", c.name, facts, want)
		}
		n, err := e.Schedule.BatchSize(row)
		if least := e.Schedule.Learned.Devices("denoise", row); n != c.batch || err != nil || least != c.least {
			t.Errorf("%s: a batch of %d elements on %d devices, %v; want %d on %d", c.name, n, least, err, c.batch, c.least)
		}
		e.Schedule.Learned.Measure("denoise", row, 10, 1) // a small batch must not replace a larger measured one
		if facts := e.Schedule.Learned.Facts(); c.fact.Measured > 0 && facts[0].Measured != c.fact.Measured {
			t.Errorf("%s: after a small batch was measured: %+v, want %d bytes measured", c.name, facts, c.fact.Measured)
		}
	}
}

// TestCorrect: Correct changes the estimate of a batch by what an earlier run measured, so a plan uses the real need.
func TestCorrect(t *testing.T) {
	for _, c := range []struct {
		name string
		fact memory.Fact
		want int64 // bytes of two elements that are estimated at 40 bytes
	}{
		{"nothing", memory.Fact{Limit: 1000}, 40},
		{"twice as much", memory.Fact{Estimated: 10, Measured: 20}, 80},
		{"half as much", memory.Fact{Estimated: 20, Measured: 10}, 22},
		{"one did not fit", memory.Fact{Fails: 1, Limit: 1000, Alone: true}, 2500},
		{"one needed less than estimated and did not fit", memory.Fact{Limit: 8, Alone: true}, 40},
	} {
		if got := c.fact.Correct(2, 40); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
	h := newHungry(9, 9, 0)
	e := newEngine(t, 2, step("denoise", fakeStage{}))
	e.Schedule.Steps[0].Stage = h
	f, out := station(t, e, 0), &collector{}
	f.give(t, out.emit, "a")
	f.end(t, out.emit)
	if facts := e.Schedule.Learned.Facts(); len(facts) != 1 || !facts[0].Alone || facts[0].Fails != 2 {
		t.Errorf("learned %+v, want one fact: an element alone failed twice", facts)
	}
}

// sickPool lends devices whose health a test can end.
type sickPool struct {
	*fakePool
	wells []context.CancelCauseFunc // end the health of each lent set
	gave  []bool                    // whether each returned set was reported as healthy
}

func (p *sickPool) LeaseThese(ctx context.Context, devices []int) (*stages.Set, func(bool), error) {
	set, release, err := p.fakePool.LeaseThese(ctx, devices)
	if err == nil {
		var end context.CancelCauseFunc
		set.Health, end = context.WithCancelCause(context.Background())
		p.wells = append(p.wells, end)
	}
	return set, func(ok bool) { p.gave = append(p.gave, ok); release(ok) }, err
}

// TestIllDevice: a device falls ill while it computes a batch. Whatever the outcome of the batch is, the batch is computed again.
func TestIllDevice(t *testing.T) {
	ill := fault.DeviceLost(errors.New("XID 79"))
	cases := 0
	for _, c := range []struct {
		name string
		run  func(ctx context.Context) error // outcome of the first attempt
	}{
		{"went well", func(context.Context) error { return nil }},
		{"failed", func(context.Context) error { return errors.New("nonsense") }},
		{"a fatal error", func(context.Context) error { return fault.Fatal(errors.New("nonsense")) }},
		{"panicked", func(context.Context) error { panic("nonsense") }},
		{"waits for its context", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }},
	} {
		cases++
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pool := &sickPool{fakePool: newFakePool(1)}
				tries := 0
				s := fakeStage{run: func(ctx context.Context, batch []*stages.Element) error {
					if tries++; tries > 1 {
						latent(batch[0])
						return nil
					}
					batch[0].Latents = stages.NewArray(1, 1, 1, 1) // a result of the sick device, which must not stay
					pool.wells[0](ill)
					return c.run(ctx)
				}}
				e := newEngine(t, 1, step("denoise", s))
				e.Schedule.Pool = pool
				f, out := station(t, e, 0), &collector{}
				f.give(t, out.emit, "four")
				f.end(t, out.emit)
				el := out.elements[0]
				if tries != 2 || el.Failed != nil || el.Latents.Data[0] != 4 {
					t.Errorf("%d attempts, error %v, result %v; want 2, none and 4 (the length of the prompt)", tries, el.Failed, el.Latents)
				}
				if !slices.Equal(pool.gave, []bool{false, true}) {
					t.Errorf("sets were returned as healthy: %v, want false, then true", pool.gave)
				}
			})
		})
	}
	t.Logf("P10: %d outcomes of a batch on a device that fell ill meanwhile: it is done again", cases)
}
