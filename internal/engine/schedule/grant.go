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
	// ErrNoDevice is returned when all devices are lost.
	ErrNoDevice = errors.New("there is no device")
	// errLeaderGone makes batches retry that had joined another batch, which was canceled before it started.
	errLeaderGone = fault.Retry(errors.New("the batch that took these rows along was given up"))
)

// Grant is the result of a turn: devices and the elements to compute on them, or a leader, whose turn computes this batch too.
type Grant struct {
	Devices  []int
	Live     []*stages.Element // elements of the turn and of the turns that joined it
	stage    int
	joined   []*Turn
	outcomes []chan Attempt // one for each of joined
	leader   chan Attempt   // delivers the leader's outcome; nil: this grant has devices
	estimate
}

// Attempt is the outcome of an attempt at a batch and the batches that joined it.
type Attempt struct {
	Devices  []int
	Elements int
	Err      error
}

// LeaderOutcome waits for the leader and returns its outcome. joined is false if the grant has devices of its own.
func (g *Grant) LeaderOutcome() (r Attempt, joined bool) {
	if g.leader == nil {
		return r, false
	}
	return <-g.leader, true
}

// notify delivers the outcome to the turns that joined.
func (g *Grant) notify(r Attempt) {
	for _, c := range g.outcomes {
		c <- r
	}
}

// Ask limits the devices of an attempt.
type Ask struct {
	Cap   int   // largest number of devices; 0: no limit
	Avoid []int // devices that must not be used
}

// Turn returns a turn for a batch of a stage.
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
	// patienceFactor is how many times longer than predicted the ranks of a set wait for each other.
	patienceFactor = 10
	// leastPatience is the shortest time that they wait, because a process that pauses briefly is not lost.
	leastPatience = 30 * time.Second
)

// Start records that the devices of a grant are busy. It returns how long the ranks of the set should wait for each
// other; 0: unknown, because the stage was not timed yet. For a sampling stage the time of one step is the basis: there is less
// work between two exchanges.
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
	return max(leastPatience, time.Duration(patienceFactor*stretch*float64(time.Second)))
}

// RecordTime records how long the batch of a grant took.
func (s *Schedule) RecordTime(g *Grant, took time.Duration) { g.learn(took) }

// Measure records the peak memory of a grant's batch on one device beside its estimate.
func (s *Schedule) Measure(g *Grant, peak int64) {
	f, row := s.step(g.stage), &g.Live[0].Row
	if need, err := s.forecast.need(f.key(row), f.Step, row, len(g.Live)); err == nil {
		s.Learned.Measure(f.Name, row, shared(need, len(g.Devices)), peak)
		s.Learned.Outgrow(f.Name, row, s.Pool.Memory().Limit)
	}
}

// Release releases the devices of a grant. It returns the outcome and delivers it to the turns that joined.
func (s *Schedule) Release(g *Grant, err error) Attempt {
	r := Attempt{g.Devices, len(g.Live), err}
	if len(g.joined) > 0 && fault.IsOutOfMemory(err) { // each batch alone may fit
		s.forecast.tooMany(s.step(g.stage).key(&g.Live[0].Row), len(g.Live))
		r.Err = fault.Retry(fmt.Errorf("%d elements together: %v", len(g.Live), err)) //nolint:errorlint // the class of err is that of one element
	}
	s.turns.release(s.Pool, g.Devices)
	g.notify(r)
	return r
}

// estimate is the prediction for a batch on its devices.
type estimate struct {
	seconds func() float64      // current prediction
	learn   func(time.Duration) // records the measured time
	cost    *cost.Estimate
}

// estimate returns the cost and the predicted time of a batch on these devices.
func (f step) estimate(devices []int, live []*stages.Element) estimate {
	row, n := &live[0].Row, len(live)
	key := f.key(row)
	cost := f.forecast.cost(key, f.Step, row)
	set := subset(devicesOf(f.Pool), devices)
	return estimate{
		seconds: func() float64 { return f.forecast.seconds(key, cost, n, set) },
		learn:   func(took time.Duration) { f.forecast.record(key, cost, n, set, took) },
		cost:    cost,
	}
}
