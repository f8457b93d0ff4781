package schedule

import (
	"context"
	"slices"
	"sync"
	"time"

	"latentbeam/internal/devices"
	"latentbeam/stages"
)

// turns assigns the devices of the pool. A batch in a late stage goes before a batch in an early stage, so that
// started rows finish first. So the first results appear early, little memory is used, and a killed process
// loses little work. When devices become free, turns decides which devices a batch gets and whether later batches
// join it (see step.choose). If a batch waits for more devices than are free, batches of earlier stages do not
// overtake it.
type turns struct {
	mu      sync.Mutex
	busy    map[int]*work // by device
	waiting []*Turn       // in order of arrival
	clock   Clock
	retryAt time.Time // next time to ask a turn that waits although devices are free; zero: none waits
	cancel  func()    // cancels the timer for retryAt; nil: no timer
	// passages holds the open passages: batches that were sampled and are not published.
	passages map[*Passage]bool
}

// Turn is a batch that waits for devices.
type Turn struct {
	stage int
	live  []*stages.Element
	// Batches of a stage are combined only if their kinds are equal; nil: this batch is never combined.
	kind any
	// choose returns the devices that the batch gets and how many elements it computes there: its own and those of later turns
	// of its kind. If choose returns no devices, the batch waits for elements that have not arrived, and batches of other
	// stages may overtake it.
	choose  func(v view) (devices []int, elements int)
	granted chan *Grant
	idle    time.Time // when it began to wait although devices are free; zero: it does not
	passage *Passage  // the batch's passage; nil: none
}

// waited returns how long the turn has waited although devices are free.
func (t *Turn) waited(now time.Time) time.Duration {
	if t.idle.IsZero() {
		return 0
	}
	return now.Sub(t.idle)
}

// view is the state from which a turn chooses its devices.
type view struct {
	now   time.Time
	rates []float64 // speed of each device, relative to the fastest; 0: lost
	free  []float64 // seconds until each device is free
	queue []*Turn   // this turn and the later ones of its stage, in order
}

// work is a batch that is running on some devices.
type work struct {
	began time.Time
	// seconds predicts how long the batch takes; 0: unknown. timed reports whether the prediction uses times
	// measured on this machine.
	seconds func() (s float64, timed bool)
}

// left predicts in how many seconds the devices will be free. It assumes that a batch that has run s seconds longer than predicted
// needs s more. A batch without a prediction needs as long again as it has run. If the prediction does not use measured times,
// the batch needs that long too, but at least the whole prediction.
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

// join adds a turn to the waiting turns. A later call of grant gives it devices.
func (t *turns) join(mine *Turn) {
	mine.granted = make(chan *Grant, 1)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting = append(t.waiting, mine)
}

// acquire waits until the batch may lease devices, or until another batch includes it. release releases the
// devices.
func (t *turns) acquire(ctx context.Context, pool devices.Pool, mine *Turn) (*Grant, error) {
	t.join(mine)
	for {
		changed := pool.Changed() // before grant reads the devices
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

// remove removes a turn from the waiting ones. If the turn was granted devices meanwhile, remove releases them.
func (t *turns) remove(pool devices.Pool, mine *Turn) {
	t.mu.Lock()
	if i := slices.Index(t.waiting, mine); i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	}
	t.mu.Unlock()
	select {
	case g := <-mine.granted:
		if g.leader != nil {
			<-g.leader // it is computing the elements
			break
		}
		g.notify(Attempt{Err: errLeaderGone})
		t.release(pool, g.Devices)
	default:
		t.grant(pool) // others may have waited behind it
	}
}

// start records that devices are busy, with a prediction of how long.
func (t *turns) start(devices []int, seconds func() (float64, bool)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := &work{t.clock.Now(), seconds}
	for _, d := range devices {
		t.busy[d] = l
	}
}

// release releases devices.
func (t *turns) release(pool devices.Pool, devices []int) {
	t.mu.Lock()
	for _, d := range devices {
		delete(t.busy, d)
	}
	t.mu.Unlock()
	t.grant(pool)
}

// grant grants free devices to waiting batches. The latest stage goes first, and within a stage the batch that has waited
// longest. It returns false if there is no device at all.
func (t *turns) grant(pool devices.Pool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.busy == nil {
		t.busy = map[int]*work{}
	}
	t.retryAt = time.Time{}
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
		if t.mustWait(w, v) {
			t.retryWaiting(w, v)
			i++
			continue
		}
		devices, elements := w.choose(v)
		if len(devices) == 0 { // skip the later turns of this stage too
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

// minRetry is the shortest time after which a waiting turn is asked again.
const minRetry = 10 * time.Millisecond

// retryWaiting plans to ask a turn again that waits although devices are free. The turn waits for other batches, which may be
// late. So it is asked again when it has waited twice as long.
func (t *turns) retryWaiting(w *Turn, v view) {
	if v.idle() == 0 {
		w.idle = time.Time{}
		return
	}
	if w.idle.IsZero() {
		w.idle = v.now
	}
	if at := v.now.Add(max(minRetry, w.waited(v.now))); t.retryAt.IsZero() || at.Before(t.retryAt) {
		t.retryAt = at
	}
}

// scheduleWakeup sets the timer for retryAt.
func (t *turns) scheduleWakeup(pool devices.Pool) {
	if t.cancel != nil {
		t.cancel()
		t.cancel = nil
	}
	if !t.retryAt.IsZero() {
		t.cancel = t.clock.AfterFunc(t.retryAt.Sub(t.clock.Now()), func() { t.grant(pool) })
	}
}

// grantTo grants devices to a turn, and combines it with later turns of its kind up to this number of elements.
func (t *turns) grantTo(w *Turn, queue []*Turn, devices []int, elements int) (given []*Turn) {
	g := &Grant{stage: w.stage, Devices: devices, Live: w.live}
	elements -= len(w.live)
	for _, o := range queue {
		if o != w && w.kind != nil && o.kind == w.kind && len(o.live) <= elements {
			leader := make(chan Attempt, 1)
			g.joined, g.outcomes = append(g.joined, o), append(g.outcomes, leader)
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

// free returns, for each of n devices, in how many seconds it will be free.
func (t *turns) free(n int) []float64 {
	out, now := make([]float64, n), t.clock.Now()
	left := map[*work]float64{}
	for d, l := range t.busy {
		if _, known := left[l]; !known {
			left[l] = max(l.left(now), 1e-6) // busy, even if overdue
		}
		if d < n {
			out[d] = left[l]
		}
	}
	return out
}

// ratesOf returns the speeds of a pool's devices, relative to the fastest; 0: the device is lost.
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
