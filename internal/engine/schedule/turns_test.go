package schedule

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"latentbeam/stages"
)

// asks is a turn of so many elements that takes least to most devices, whatever is free.
func asks(stage, elements, least, most int) *Turn {
	mine := &Turn{stage: stage, live: make([]*stages.Element, elements)}
	mine.choose = func(v view) ([]int, int) { return v.pick(min(max(least, v.idle()), most)), elements }
	return mine
}

// TestLateStagesGoFirst lets batches of several stages wait for one device.
func TestLateStagesGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := turns{clock: testClock{}}
		pool := newFakePool(1)
		first, err := turns.acquire(t.Context(), pool, asks(0, 1, 1, 1))
		if err != nil {
			t.Fatal(err)
		}
		order := make(chan int, 4)
		for _, stage := range []int{1, 0, 2, 1} {
			go func() {
				g, err := turns.acquire(t.Context(), pool, asks(stage, 1, 1, 1))
				if err != nil {
					t.Error(err)
					return
				}
				order <- stage
				turns.release(pool, g.Devices)
			}()
			synctest.Wait()
		}
		turns.release(pool, first.Devices)
		synctest.Wait()
		close(order)
		var got []int
		for stage := range order {
			got = append(got, stage)
		}
		if !slices.Equal(got, []int{2, 1, 1, 0}) {
			t.Errorf("stages went in the order %v, want 2 1 1 0", got)
		}
	})
}

// TestAWaitThatEndsLosesNoDevice cancels a waiting batch and lets another one have its turn.
func TestAWaitThatEndsLosesNoDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := turns{clock: testClock{}}
		pool := newFakePool(1)
		first, err := turns.acquire(t.Context(), pool, asks(0, 1, 1, 1))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			if _, err := turns.acquire(ctx, pool, asks(1, 1, 1, 1)); err == nil {
				t.Error("a cancelled wait was granted")
			}
		}()
		synctest.Wait()
		cancel()
		synctest.Wait()
		turns.release(pool, first.Devices)
		if _, err := turns.acquire(t.Context(), pool, asks(0, 1, 1, 1)); err != nil {
			t.Error(err)
		}
	})
}

// TestSetsWaitTogether: a batch gets as many free devices as it can use, and at least its need. A batch that needs
// more than are free is not overtaken.
func TestSetsWaitTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := turns{clock: testClock{}}
		pool := newFakePool(4)
		got := make(chan string, 4)
		ask := func(name string, stage, least, most int) func() {
			end := make(chan struct{})
			go func() {
				g, err := turns.acquire(t.Context(), pool, asks(stage, 1, least, most))
				if err != nil {
					t.Error(err)
					return
				}
				got <- fmt.Sprint(name, len(g.Devices))
				<-end
				turns.release(pool, g.Devices)
			}()
			synctest.Wait()
			return func() { close(end); synctest.Wait() }
		}
		one := ask("one", 1, 1, 1)
		tail := ask("tail", 1, 1, 2)
		wide := ask("wide", 1, 3, 3)
		early := ask("early", 0, 2, 2)
		one()
		tail()
		wide()
		early()
		close(got)
		var order []string
		for s := range got {
			order = append(order, s)
		}
		if !slices.Equal(order, []string{"one1", "tail2", "wide3", "early2"}) {
			t.Errorf("granted %v", order)
		}
	})
}

// TestBatchesAreTakenTogether: a turn takes those of its kind behind it along, as far as its elements go, and
// they hear how it went. One of another kind has its own turn.
func TestBatchesAreTakenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := turns{clock: testClock{}}
		pool := newFakePool(2)
		first, err := turns.acquire(t.Context(), pool, asks(2, 1, 2, 2))
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan string, 5)
		ask := func(name string, kind any, elements, takes int) {
			mine := asks(1, elements, 2, 2)
			mine.kind = kind
			if takes > 0 {
				mine.choose = func(v view) ([]int, int) { return v.pick(2), takes }
			}
			go func() {
				g, err := turns.acquire(t.Context(), pool, mine)
				if err != nil {
					t.Error(err)
				} else if g.leader != nil {
					r := <-g.leader
					got <- fmt.Sprint(name, " joined ", len(r.Devices))
				} else {
					got <- fmt.Sprint(name, " leads ", len(g.joined))
					turns.release(pool, g.Devices)
					g.notify(Attempt{Devices: g.Devices})
				}
			}()
			synctest.Wait()
		}
		ask("a", "shape", 2, 6)
		ask("b", "other", 2, 0)
		ask("c", "shape", 3, 0)
		ask("d", "shape", 2, 0) // too many
		ask("e", "shape", 1, 0)
		turns.release(pool, first.Devices)
		synctest.Wait()
		close(got)
		var order []string
		for s := range got {
			order = append(order, s)
		}
		slices.Sort(order)
		if want := []string{"a leads 2", "b leads 0", "c joined 2", "d leads 0", "e joined 2"}; !slices.Equal(order, want) {
			t.Errorf("%q, want %q", order, want)
		}
	})
}

// Devices next to each other, as those of a host are, the fastest of them.
func TestPick(t *testing.T) {
	v := view{rates: []float64{1, 0, 0.5, 1, 1, 0.2, 1}, free: []float64{0, 0, 0, 0, 0, 0, 3}}
	for n, want := range map[int][]int{1: {0}, 2: {3, 4}, 3: {2, 3, 4}, 5: {0, 2, 3, 4, 5}, 6: {0, 2, 3, 4, 5, 6}} {
		if got := v.pick(n); !slices.Equal(got, want) {
			t.Errorf("%d devices: %v, want %v", n, got, want)
		}
	}
}

// growing is a pool that another device comes to as soon as its speeds have been read.
type growing struct {
	*fakePool
	speeds  []float64
	changed chan struct{}
}

func (p *growing) LeaseThese(context.Context, []int) (*stages.Set, func(bool), error) {
	return nil, nil, fmt.Errorf("this test leases nothing")
}

func (p *growing) Changed() <-chan struct{} { return p.changed }

func (p *growing) Speeds() []float64 {
	before := p.speeds
	if len(before) < 2 {
		p.speeds = append(slices.Clone(before), 1)
		close(p.changed)
		p.changed = make(chan struct{})
	}
	return before
}

// TestADeviceThatComesIsSeen: also if it comes while a turn looks for one.
func TestADeviceThatComesIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := turns{clock: testClock{}, busy: map[int]*work{0: {}}}
		pool := &growing{newFakePool(2), []float64{1}, make(chan struct{})}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if g, err := turns.acquire(ctx, pool, asks(0, 1, 1, 1)); err != nil || !slices.Equal(g.Devices, []int{1}) {
			t.Errorf("granted %v, %v", g.Devices, err)
		}
	})
}
