package schedule

import (
	"context"
	"slices"
	"sync"
	"time"

	"latentbeam/internal/devices"
	"latentbeam/stages"
)

// turns gives out the devices of the pool. A batch in a late stage goes before one in an early stage: what is
// begun is finished first. So the first results come early, little is in memory, and little is lost with the
// process. Which devices a batch gets, and whether batches behind it join it, is decided when devices come
// free, by what is known then (see step.choose). A batch that waits for more devices than are free is not
// passed by those of earlier stages.
type turns struct {
	mu      sync.Mutex
	busy    map[int]*work // by device
	waiting []*Turn       // in order of arrival
	clock   Clock
	again   time.Time // when a turn that waits beside free devices is asked again; zero: none does
	stop    func()    // ends the wait for that; nil: nothing waits
	// passages are those of batches that have begun to sample and are not published yet.
	passages map[*Passage]bool
}

// Turn is a batch that waits for devices.
type Turn struct {
	stage int
	live  []*stages.Element
	// kind is what batches of a stage must share to become one batch; nil: this one stays alone.
	kind any
	// choose says which devices the batch is to have and how many elements, its own and of turns behind it of
	// its kind. no devices: it waits for elements that are still to come, and others may pass it.
	choose  func(v view) (devices []int, elements int)
	granted chan *Grant
	idle    time.Time // since when it has waited beside free devices; zero: it does not
	passage *Passage  // of the batch; nil: nothing holds it
}

// waited is for how long it has waited beside free devices.
func (t *Turn) waited(now time.Time) time.Duration {
	if t.idle.IsZero() {
		return 0
	}
	return now.Sub(t.idle)
}

// view is what a turn can know when it chooses.
type view struct {
	now   time.Time
	rates []float64 // of the devices, of the fastest; 0 for one that is gone
	free  []float64 // in how many seconds each is free
	queue []*Turn   // of the stage, in order, from this turn on
}

// work is a batch at work on some devices.
type work struct {
	began time.Time
	// seconds predicts how long it takes, by what is known now, 0 where that is nothing; timed says whether
	// these are seconds of this machine already.
	seconds func() (s float64, timed bool)
}

// left is in how many seconds the devices are probably free. One that is late will be late as long again.
func (l *work) left(now time.Time) float64 {
	gone := now.Sub(l.began).Seconds()
	if l.seconds == nil {
		return gone
	}
	switch s, timed := l.seconds(); {
	case s == 0:
		return gone
	case !timed:
		return max(s, gone)
	default:
		return max(s-gone, gone-s)
	}
}

// join lets a turn wait for devices; grant gives them.
func (t *turns) join(mine *Turn) {
	mine.granted = make(chan *Grant, 1)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting = append(t.waiting, mine)
}

// acquire waits until the batch may lease devices, or until another batch takes it along. release gives
// devices back.
func (t *turns) acquire(ctx context.Context, pool devices.Pool, mine *Turn) (*Grant, error) {
	t.join(mine)
	for {
		changed := pool.Changed() // before its devices are looked at
		if !t.grant(pool) {
			t.remove(pool, mine)
			return nil, ErrNoDevice
		}
		select {
		case g := <-mine.granted:
			return g, nil
		case <-changed:
		case <-ctx.Done():
			t.remove(pool, mine)
			return nil, context.Cause(ctx)
		}
	}
}

// remove ends the waiting of a turn. What it was granted at the same moment goes back.
func (t *turns) remove(pool devices.Pool, mine *Turn) {
	t.mu.Lock()
	if i := slices.Index(t.waiting, mine); i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	}
	t.mu.Unlock()
	select {
	case g := <-mine.granted:
		if g.leader != nil {
			<-g.leader // it works on the elements
			break
		}
		g.notify(Attempt{Err: errPassed})
		t.release(pool, g.Devices)
	default:
		t.grant(pool) // it may have stood in the way of others
	}
}

// start notes what devices are at work on, as a prediction of its time.
func (t *turns) start(devices []int, seconds func() (float64, bool)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := &work{t.clock.Now(), seconds}
	for _, d := range devices {
		t.busy[d] = l
	}
}

// release gives devices back.
func (t *turns) release(pool devices.Pool, devices []int) {
	t.mu.Lock()
	for _, d := range devices {
		delete(t.busy, d)
	}
	t.mu.Unlock()
	t.grant(pool)
}

// grant gives what is free to the waiting batches: of the latest stage first, of those the longest waiting
// one. It returns false when there is no device at all.
func (t *turns) grant(pool devices.Pool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.busy == nil {
		t.busy = map[int]*work{}
	}
	t.again = time.Time{}
	defer t.scheduleWakeup(pool)
	rates := ratesOf(pool)
	if !slices.ContainsFunc(rates, func(r float64) bool { return r > 0 }) {
		return false
	}
	order := slices.Clone(t.waiting)
	slices.SortStableFunc(order, func(a, b *Turn) int { return b.stage - a.stage })
	for i := 0; i < len(order); {
		w := order[i]
		v := view{rates: rates, free: t.free(len(rates)), now: t.clock.Now()}
		for _, o := range order[i:] {
			if o.stage == w.stage {
				v.queue = append(v.queue, o)
			}
		}
		if t.held(w, v) {
			t.retryWaiting(w, v)
			i++
			continue
		}
		devices, elements := w.choose(v)
		if len(devices) == 0 { // neither are those that it would take along
			t.retryWaiting(w, v)
			i += len(v.queue)
			continue
		}
		if slices.ContainsFunc(devices, func(d int) bool { return t.busy[d] != nil }) {
			t.retryWaiting(w, v)
			return true
		}
		given := t.grantTo(w, v.queue, devices, elements)
		order = slices.DeleteFunc(order, func(o *Turn) bool { return slices.Contains(given, o) })
		i = 0
	}
	return true
}

// leastAgain bounds how often turns are asked again.
const leastAgain = 10 * time.Millisecond

// retryWaiting notes that a turn waits although devices are free. It chose to by what it expected of others, who may be
// late: it is asked again when it has waited twice as long.
func (t *turns) retryWaiting(w *Turn, v view) {
	if v.idle() == 0 {
		w.idle = time.Time{}
		return
	}
	if w.idle.IsZero() {
		w.idle = v.now
	}
	if at := v.now.Add(max(leastAgain, w.waited(v.now))); t.again.IsZero() || at.Before(t.again) {
		t.again = at
	}
}

// scheduleWakeup lets turns be asked again when it is time.
func (t *turns) scheduleWakeup(pool devices.Pool) {
	if t.stop != nil {
		t.stop()
		t.stop = nil
	}
	if !t.again.IsZero() {
		t.stop = t.clock.AfterFunc(t.again.Sub(t.clock.Now()), func() { t.grant(pool) })
	}
}

// grantTo grants devices to a turn and to those behind it that make up the elements.
func (t *turns) grantTo(w *Turn, queue []*Turn, devices []int, elements int) (given []*Turn) {
	g := &Grant{stage: w.stage, Devices: devices, Live: w.live}
	elements -= len(w.live)
	for _, o := range queue {
		if o != w && w.kind != nil && o.kind == w.kind && len(o.live) <= elements {
			leader := make(chan Attempt, 1)
			g.joined, g.told = append(g.joined, o), append(g.told, leader)
			g.Live = append(g.Live[:len(g.Live):len(g.Live)], o.live...)
			elements -= len(o.live)
			t.startPassage(o)
			o.granted <- &Grant{leader: leader}
		}
	}
	l := &work{began: t.clock.Now()}
	for _, d := range devices {
		t.busy[d] = l
	}
	t.startPassage(w)
	w.granted <- g
	given = append(g.joined, w)
	t.waiting = slices.DeleteFunc(t.waiting, func(o *Turn) bool { return slices.Contains(given, o) })
	return given
}

// free returns in how many seconds each of n devices is free.
func (t *turns) free(n int) []float64 {
	out, now := make([]float64, n), t.clock.Now()
	left := map[*work]float64{}
	for d, l := range t.busy {
		if _, known := left[l]; !known {
			left[l] = max(l.left(now), 1e-6) // not now in any case
		}
		if d < n {
			out[d] = left[l]
		}
	}
	return out
}

// ratesOf returns the speeds of a pool's devices, of the fastest one; 0 for those that are gone.
func ratesOf(pool devices.Pool) []float64 {
	rates := slices.Clone(pool.Speeds())
	most := slices.Max(rates)
	for i := range rates {
		if most > 0 {
			rates[i] /= most
		}
	}
	return rates
}
