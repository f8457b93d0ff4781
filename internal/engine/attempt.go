package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"time"

	"latentbeam/internal/plan/layout"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

var (
	// errNoDevice is why a turn is not granted: all devices are gone.
	errNoDevice = errors.New("there is no device")
	// errPassed is why those that joined a batch are tried again: it gave up before it began.
	errPassed = fault.Retry(errors.New("the batch that took these rows along was given up"))
)

// settle runs the elements until each has its result or its failure: errors of the world are tried
// again, a set of devices that failed is tried smaller, and an error or panic of a batch is narrowed down by
// running its elements alone. Where a device runs out of memory, the batch goes on in halves, then on more
// devices (see learned), then with weights that pass through memory. What is not finite is computed once more (see
// doubt).
func (f *Station) settle(live []*stages.Element, t trial) error {
	if n := f.engine.learned.fits(f.step, &live[0].Row, len(live)); n < len(live) {
		return f.settleParts(live, n, t)
	}
	before := copies(live)
	var r result
	var err error
	last := max(1, f.engine.Retries) - 1
	for try := 0; try <= last; try++ {
		if try > 0 && !f.pause(retryPause<<(try-1)) {
			break
		}
		least, staying := f.engine.learned.devices(f.step, &live[0].Row), f.staying()
		r = f.attempt(live, t)
		if err = r.err; err == nil {
			return f.examine(live, before, r.devices, t)
		}
		restore(live, before)
		if fault.IsOutOfMemory(err) && f.relieve(live, len(r.devices), least, staying) {
			t.cap = 0
			return f.settle(live, t)
		}
		if fault.ClassOf(err) != fault.ClassRetry || fault.IsOutOfMemory(err) {
			break
		}
		if t.cap = max(1, len(r.devices)-1); try == last-1 {
			t.cap = 1
		}
	}
	switch {
	case errors.Is(err, errNotBegun):
		return err
	case f.ctx.Err() != nil:
		return context.Cause(f.ctx)
	case fault.ClassOf(err) == fault.ClassFatal:
		return fmt.Errorf("%s: %w", f.step.Name, err)
	case fault.IsNotFinite(err) && r.elements == 1:
		return f.doubt(live[0], err, r.devices, t)
	case len(live) == 1 && r.elements <= 1:
		live[0].Fail(f.step.Name, err)
		return nil
	}
	again := trial{cap: 1}
	if fault.IsNotFinite(err) {
		again = f.elsewhere(&live[0].Row, err, r.devices, t)
	}
	return f.settleEach(live, again)
}

// pause waits before another attempt; false means that the job ended meanwhile.
func (f *Station) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-f.ctx.Done():
		return false
	}
}

// copies notes the elements as they are before a stage: it may be in the middle of them when it fails.
func copies(live []*stages.Element) []stages.Element {
	out := make([]stages.Element, len(live))
	for i, e := range live {
		out[i] = *e
		out[i].Readings = maps.Clone(e.Readings)
	}
	return out
}

// restore undoes what a failed attempt did to the elements.
func restore(live []*stages.Element, before []stages.Element) {
	for i, e := range live {
		*e = before[i]
		e.Readings = maps.Clone(before[i].Readings)
	}
}

// attempt runs the stage once on leased devices; the batch may do so together with others that wait.
func (f *Station) attempt(live []*stages.Element, t trial) result {
	pool := f.engine.Pool
	mine := f.turn(live, t)
	for {
		g, err := f.engine.turns.acquire(f.ctx, pool, mine)
		switch {
		case errors.Is(err, errNoDevice):
			if err := f.await(); err != nil {
				return result{elements: len(live), err: err}
			}
			continue
		case err != nil:
			return result{elements: len(live), err: err}
		case g.leader != nil:
			return <-g.leader
		}
		all := live
		for _, o := range g.joined {
			all = append(all[:len(all):len(all)], o.live...)
		}
		r := result{g.devices, len(all), f.work(g.devices, all)}
		if len(g.joined) > 0 && fault.IsOutOfMemory(r.err) { // says nothing of each alone
			f.engine.forecast.tooMany(f.key(&live[0].Row), len(all))
			r.err = fault.Retry(fmt.Errorf("%d elements together: %v", len(all), r.err))
		}
		f.engine.turns.release(pool, g.devices)
		g.tell(r)
		return r
	}
}

// turn is the turn of a batch.
func (f *Station) turn(live []*stages.Element, t trial) *turn {
	mine := &turn{stage: f.index, live: live}
	if t.cap == 0 && t.avoid == nil {
		mine.kind = kind{f, schemas.BucketOf(live[0].Row)}
	}
	mine.choose = func(v view) ([]int, int) {
		v = v.without(t.avoid)
		devices, n := f.choose(mine, t.cap, v)
		return f.place(devices, v), n
	}
	return mine
}

// await waits until there is a device again, or the pool says that none will be.
func (f *Station) await() error {
	_, release, err := f.engine.Pool.LeaseSet(f.ctx, 1)
	if err == nil {
		release(true)
	}
	return err
}

// work runs the stage on these devices. A panic is an error of the row that caused it; an error of a set may
// be one of its devices', so the batch is tried on another.
func (f *Station) work(devices []int, live []*stages.Element) (err error) {
	set, release, err := f.engine.Pool.LeaseThese(f.ctx, devices)
	if err != nil {
		return err
	}
	if f.engine.Stopping() && f.mayDrop() {
		release(true)
		return errNotBegun
	}
	ctx, stop := set.Under(f.ctx)
	defer stop()
	peak := peaks(set.Devices)
	began, usage := time.Now(), metered(set)
	learn := f.predict(set, devices, live)
	defer func() {
		if r := recover(); r != nil {
			slog.Debug("stage panicked", "stage", f.step.Name, "panic", r, "stack", string(debug.Stack()))
			err = fault.Row(fmt.Errorf("panic: %s", panicText(r)))
		}
		if why := set.Ill(); why != nil { // whatever came of it
			err = why
		} else if err == nil {
			f.measured(live, len(devices), peak())
		}
		release(err == nil)
		if err == nil {
			learn(time.Since(began))
		}
		f.engine.Progress.Spent(f.step.Name, time.Since(began))
		f.engine.Progress.Computed(f.step.Name, usage())
	}()
	set.Stay = f.engine.learned.stays(f.step.Name)
	err = RunStep(ctx, f.step, set, live)
	if err != nil && set.Ranks() > 1 && fault.ClassOf(err) == fault.ClassRow && !fault.IsNotFinite(err) {
		slog.Debug("set failed", "stage", f.step.Name, "devices", set.Ranks(), "error", err)
		err = fault.Retry(err)
	}
	return err
}

const (
	// generous is how many times longer than predicted the ranks of a set may wait for each other.
	generous = 10
	// leastPatience is how long they wait in any case: a process that is stopped for a moment is not gone.
	leastPatience = 30 * time.Second
)

// predict says how long the batch will take, and lets the ranks of its set wait for each other accordingly, once
// the stage has been timed. Between two exchanges there is less work than in a sampling step. learn takes how long
// it was.
func (f *Station) predict(set *stages.Set, devices []int, live []*stages.Element) (learn func(time.Duration)) {
	cost, seconds, learn := f.expect(devices, live)
	f.engine.turns.begin(devices, func() (float64, bool) { return seconds(), f.engine.forecast.measured(f.index) })
	if stretch := seconds(); f.engine.forecast.measured(f.index) && stretch > 0 {
		if cost.Split != nil {
			stretch /= float64(cost.Split.Steps)
		}
		set.Patience = max(leastPatience, time.Duration(generous*stretch*float64(time.Second)))
	}
	return learn
}

// expect says what the batch costs, and by all that is known when seconds is called, how long it will take on these
// devices. learn takes how long it was.
func (f *Station) expect(devices []int, live []*stages.Element) (cost *layout.Stage, seconds func() float64,
	learn func(time.Duration)) {
	row := &live[0].Row
	key := f.key(row)
	cost = f.engine.forecast.cost(key, f.step, row)
	set := some(devicesOf(f.engine.Pool), devices)
	seconds = func() float64 { return f.engine.forecast.seconds(key, cost, len(live), set) }
	learn = func(took time.Duration) { f.engine.forecast.learn(key, cost, len(live), set, took) }
	return cost, seconds, learn
}

// panicText is what a failure says of a panic: nothing that another run would say differently, such as an
// address.
func panicText(v any) string {
	switch v := v.(type) {
	case error:
		return v.Error()
	case string:
		return v
	case fmt.Stringer:
		return v.String()
	}
	return fmt.Sprintf("a value of type %T", v)
}
