package schedule

import (
	"errors"
	"fmt"
	"time"

	"latentbeam/schemas/fault"
	"latentbeam/stages"
	"latentbeam/stages/cost"
)

var (
	// ErrNoDevice is why a turn is not granted: all devices are gone.
	ErrNoDevice = errors.New("there is no device")
	// errPassed is why those that joined a batch are tried again: it gave up before it began.
	errPassed = fault.Retry(errors.New("the batch that took these rows along was given up"))
)

// Grant is what a turn gets: devices and the elements to compute on them, or another turn that takes its batch along.
type Grant struct {
	Devices []int
	Live    []*stages.Element // those of the turn, and of the turns that join it
	stage   int
	joined  []*Turn
	told    []chan Attempt // of joined
	leader  chan Attempt
	estimate
}

// Attempt is how an attempt at a batch went, with those that joined it.
type Attempt struct {
	Devices  []int
	Elements int
	Err      error
}

// Taken returns how the batch went that takes this one along; taken is false where no other does. It waits for it.
func (g *Grant) Taken() (r Attempt, taken bool) {
	if g.leader == nil {
		return r, false
	}
	return <-g.leader, true
}

// notify lets those that joined know how it went.
func (g *Grant) notify(r Attempt) {
	for _, c := range g.told {
		c <- r
	}
}

// Ask is how a batch is to be tried.
type Ask struct {
	Cap   int   // bounds the devices; 0: not
	Avoid []int // devices that it is not to have
}

// Turn is the turn of a batch of a stage.
func (s *Schedule) Turn(stage int, live []*stages.Element, a Ask) *Turn {
	f := s.step(stage)
	mine := &Turn{stage: stage, live: live}
	if a.Cap == 0 && a.Avoid == nil {
		mine.kind = f.key(&live[0].Row)
	}
	mine.choose = func(v view) ([]int, int) {
		v = v.without(a.Avoid)
		devices, n := f.choose(mine, a.Cap, v)
		if len(devices) > 0 {
			n = f.gather(mine, n, v)
		}
		return f.place(devices, v), n
	}
	return mine
}

const (
	// generous is how many times longer than predicted the ranks of a set may wait for each other.
	generous = 10
	// leastPatience is how long they wait in any case: a process that is stopped for a moment is not gone.
	leastPatience = 30 * time.Second
)

// Start notes that the devices of a grant are at work. It returns how long the ranks of the set are to wait for each
// other, once the stage has been timed; 0: nothing is known of it. Between two exchanges there is less work than in a
// sampling step.
func (s *Schedule) Start(g *Grant) (patience time.Duration) {
	f := s.step(g.stage)
	g.estimate = f.estimate(g.Devices, g.Live)
	timed := func() bool { return s.forecast.measured(f.index) }
	s.turns.start(g.Devices, func() (float64, bool) { return g.seconds(), timed() })
	stretch := g.seconds()
	if !timed() || stretch <= 0 {
		return 0
	}
	if g.cost.Split != nil {
		stretch /= float64(g.cost.Split.Steps)
	}
	return max(leastPatience, time.Duration(generous*stretch*float64(time.Second)))
}

// RecordTime notes how long the batch of a grant took.
func (s *Schedule) RecordTime(g *Grant, took time.Duration) { g.learn(took) }

// Measure compares what the batch of a grant held at its fullest on one device with what it was to hold.
func (s *Schedule) Measure(g *Grant, peak int64) {
	f, row := s.step(g.stage), &g.Live[0].Row
	if need, err := s.forecast.need(f.key(row), f.Step, row, len(g.Live)); err == nil {
		s.Learned.Measure(f.Name, row, shared(need, len(g.Devices)), peak)
		s.Learned.Outgrow(f.Name, row, s.Pool.Memory().Limit)
	}
}

// Release gives devices back and tells those that joined how it went, which it returns.
func (s *Schedule) Release(g *Grant, err error) Attempt {
	r := Attempt{g.Devices, len(g.Live), err}
	if len(g.joined) > 0 && fault.IsOutOfMemory(err) { // says nothing of each alone
		s.forecast.tooMany(s.step(g.stage).key(&g.Live[0].Row), len(g.Live))
		r.Err = fault.Retry(fmt.Errorf("%d elements together: %v", len(g.Live), err)) //nolint:errorlint // the class of err is that of one element
	}
	s.turns.release(s.Pool, g.Devices)
	g.notify(r)
	return r
}

// estimate is what is expected of a batch on its devices.
type estimate struct {
	seconds func() float64      // by all that is known when it is called
	learn   func(time.Duration) // takes how long it was
	cost    *cost.Estimate
}

// estimate says what a batch costs and how long it will take on these devices.
func (f step) estimate(devices []int, live []*stages.Element) estimate {
	row, n := &live[0].Row, len(live)
	key := f.key(row)
	cost := f.forecast.cost(key, f.Step, row)
	set := some(devicesOf(f.Pool), devices)
	return estimate{
		seconds: func() float64 { return f.forecast.seconds(key, cost, n, set) },
		learn:   func(took time.Duration) { f.forecast.record(key, cost, n, set, took) },
		cost:    cost,
	}
}
