package recovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"latentbeam/internal/devices"
	"latentbeam/internal/engine/schedule"
	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
	"latentbeam/stages/cost"
)

// still is a clock that does not go.
type still struct{}

func (still) Now() time.Time                                { return time.Unix(0, 0) }
func (still) AfterFunc(time.Duration, func()) (stop func()) { return func() {} }

// pool has n devices, each of its own hardware, and lends none.
type pool struct {
	n       int
	drained *[]int
}

var errLends = errors.New("this pool lends nothing")

func (pool) LeaseSet(context.Context, int) (*stages.Set, func(bool), error) {
	return nil, nil, errLends
}
func (pool) LeaseThese(context.Context, []int) (*stages.Set, func(bool), error) {
	return nil, nil, errLends
}
func (p pool) Size() int              { return p.n }
func (p pool) Speeds() []float64      { return slices.Repeat([]float64{1}, p.n) }
func (pool) Changed() <-chan struct{} { return nil }
func (pool) Memory() cost.Memory      { return cost.Memory{Target: 100, Limit: 1000} }
func (pool) Class() string            { return "fake" }
func (p pool) Capabilities() devices.PoolCapabilities {
	return devices.PoolCapabilities{Hardware: &devices.Hardware{
		Label: func(d int) string { return fmt.Sprint("card ", d) },
		Note:  func(int, string) {},
		Drain: func(d int, _ string) bool { *p.drained = append(*p.drained, d); return true },
	}}
}

// stage computes nothing; spread says whether sets can share its batches, stay how many of its blocks stay.
type stage struct {
	spread bool
	stay   *int
}

func (stage) Digest() string                              { return "" }
func (stage) Check(*schemas.PromptRow) error              { return nil }
func (stage) Need(*schemas.PromptRow, int) (int64, error) { return 1, nil }
func (stage) Run(context.Context, kernels.Backend, []*stages.Element) error {
	return errors.New("this stage computes nothing")
}
func (s stage) Capabilities() (c stages.Capabilities) {
	if s.spread {
		c.Spread = &stages.Spread{Width: func(*schemas.PromptRow) int { return 0 }}
	}
	if s.stay != nil {
		c.Loading = &stages.Loading{Staying: func() (int, int) { return *s.stay, 8 }, Stream: func(n int) { *s.stay = n }}
	}
	return c
}

// begin returns the tries of n elements of a stage.
func begin(s stages.Stage, devices, n int) (*Recovery, *Tries, []*stages.Element, *[]int) {
	drained := &[]int{}
	steps := []stages.Step{{Name: "denoise", Gives: stages.KindLatents, Stage: s}}
	r := New(schedule.New(still{}, steps, pool{devices, drained}))
	r.Retries = 3
	var live []*stages.Element
	for i := range n {
		live = append(live, &stages.Element{Row: schemas.PromptRow{ID: fmt.Sprint(i)}})
	}
	return r, r.Tries(0, live), live, drained
}

// play answers every try, and says what was tried.
func play(t *testing.T, tries *Tries, answer func(t *Try) schedule.Attempt) string {
	t.Helper()
	var said []string
	for try := tries.Next(); try != nil; try = tries.Next() {
		if len(said) > 50 {
			t.Fatalf("it has no end: %s", strings.Join(said, "; "))
		}
		text := fmt.Sprint(len(try.Live))
		if try.Pause > 0 {
			text += fmt.Sprint(" after ", try.Pause)
		}
		if try.Cap > 0 {
			text += fmt.Sprint(" on at most ", try.Cap)
		}
		if try.Avoid != nil {
			text += fmt.Sprint(" not on ", try.Avoid)
		}
		said = append(said, text)
		if err := tries.After(try, answer(try)); err != nil {
			t.Fatal(err)
		}
	}
	return strings.Join(said, "; ")
}

// good gives every element a latent.
func good(live []*stages.Element, value float32) {
	for _, e := range live {
		e.Latents = &stages.Array{Shape: []int{1}, Data: []float32{value}}
	}
}

// TestWhatFollowsAnAttempt: without an engine, a clock or a device.
func TestWhatFollowsAnAttempt(t *testing.T) {
	fails := func(err error, devices ...int) func(*Try) schedule.Attempt {
		return func(t *Try) schedule.Attempt {
			return schedule.Attempt{Devices: devices, Elements: len(t.Live), Err: err}
		}
	}
	noMemory := fault.OutOfMemory(errors.New("full"))
	for _, c := range []struct {
		name     string
		stage    stage
		elements int
		answer   func(*Try) schedule.Attempt
		want     string
		failed   int
	}{
		{"the world fails, on ever fewer devices", stage{spread: true}, 1, fails(fault.Retry(errors.New("lost")), 0, 1, 2, 3),
			"1; 1 after 200ms on at most 3; 1 after 400ms on at most 1", 1},
		{"an error is narrowed down", stage{}, 3, fails(errors.New("no"), 0), "3; 1 on at most 1; 1 on at most 1; 1 on at most 1", 3},
		{"memory: halves, then wider", stage{spread: true}, 2, func(t *Try) schedule.Attempt {
			if len(t.Live) == 2 || t.least < 2 {
				return schedule.Attempt{Devices: make([]int, max(1, t.least)), Elements: len(t.Live), Err: noMemory}
			}
			good(t.Live, 1)
			return schedule.Attempt{Devices: []int{0, 1}, Elements: 1}
		}, "2; 1; 1; 1", 0},
		{"memory: blocks pass at last", stage{stay: new(8)}, 1, fails(noMemory, 0), "1; 1; 1", 1},
	} {
		_, tries, live, _ := begin(c.stage, 4, c.elements)
		if got := play(t, tries, c.answer); got != c.want {
			t.Errorf("%s: tried %s, want %s", c.name, got, c.want)
		}
		failed := 0
		for _, e := range live {
			if e.Failed != nil {
				failed++
			} else if e.Latents == nil {
				t.Errorf("%s: an element is neither done nor failed", c.name)
			}
		}
		if failed != c.failed {
			t.Errorf("%s: %d failed, want %d", c.name, failed, c.failed)
		}
	}
}

// TestFatalErrorsEndTheJob: they come back, with the stage's name.
func TestFatalErrorsEndTheJob(t *testing.T) {
	_, tries, _, _ := begin(stage{}, 1, 1)
	err := tries.After(tries.Next(), schedule.Attempt{Elements: 1, Err: fault.Fatal(errors.New("the disk is full"))})
	if err == nil || err.Error() != "denoise: the disk is full" {
		t.Errorf("%v", err)
	}
}

// TestDoubtsAreSettledElsewhere: what is not finite on one card is tried on others, and the card whose results were not
// finite twice is drained; what is not finite anywhere fails.
func TestDoubtsAreSettledElsewhere(t *testing.T) {
	r, tries, live, drained := begin(stage{}, 3, 4)
	answer := func(sick bool) func(*Try) schedule.Attempt {
		return func(t *Try) schedule.Attempt {
			device := 0
			if slices.Contains(t.Avoid, 0) {
				device = 1
			}
			good(t.Live, 1)
			if zero := float32(0); device == 0 || sick {
				good(t.Live[:min(2, len(t.Live))], 1/zero)
			}
			return schedule.Attempt{Devices: []int{device}, Elements: len(t.Live)}
		}
	}
	if got, want := play(t, tries, answer(false)), "4; 1 on at most 1 not on [0]; 1 on at most 1 not on [0]"; got != want {
		t.Errorf("tried %s, want %s", got, want)
	}
	for _, e := range live {
		if e.Failed != nil || e.NotFinite(stages.KindLatents) != "" {
			t.Errorf("%s: %v", e.Row.ID, e.Failed)
		}
	}
	if !slices.Equal(*drained, []int{0}) {
		t.Errorf("drained %v, want the first card", *drained)
	}
	*drained = nil
	more := &stages.Element{}
	play(t, r.Tries(0, []*stages.Element{more}), answer(true))
	if more.Failed == nil || len(*drained) > 0 {
		t.Errorf("failed %v, drained %v", more.Failed, *drained)
	}
}
