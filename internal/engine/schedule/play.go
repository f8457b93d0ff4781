package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/layout"
)

// play is the state of a simulated run.
type play struct {
	*Schedule
	foresight Foresight
	clock     *playedClock
	coming    []comingRows
	inside    []count       // batches and rows in each stage
	done      [][]played    // by stage; finished batches that wait for room in the next stage
	waiting   []waitingTurn // turns that wait for devices
	working   []working
	leases    []Lease
	ends      []progress // rows that the last stage had finished, after each of its batches
}

// comingRows counts the rows of one shape.
type comingRows struct {
	row   *stages.Element
	size  int // rows in a batch
	all   int // rows that are simulated
	left  int // simulated rows that have not started
	whole int // rows in the job
}

// played is a simulated batch.
type played struct {
	elements []*stages.Element
	passage  *Passage // nil before it is sampled
}

type waitingTurn struct {
	*Turn
	batch played
}

// working is a running batch.
type working struct {
	end     time.Duration
	stage   int
	took    time.Duration
	grant   *Grant
	batches []played
}

// progress is the number of rows that were done at a time.
type progress struct {
	at   time.Duration
	rows int
}

// play prepares the simulation.
func (f Foresight) play() (*play, error) {
	clock := &playedClock{began: time.Unix(0, 0)}
	p := &play{Schedule: New(clock, slices.Clone(f.Steps), f.Pool), foresight: f, clock: clock}
	p.MaxBatch = f.MaxBatch
	if f.Predictions != nil {
		p.forecast.open(f.Predictions)
	}
	p.Recall(f.Facts)
	for i := range p.Steps {
		s := &p.Steps[i]
		if c := s.Capabilities(); f.Width > 0 && c.Spread != nil && c.Cost != nil {
			if cost, err := c.Cost(&f.Rows[0].Row); err == nil && cost.Split != nil {
				s.Stage = ofWidth{s.Stage, f.Width}
			}
		}
	}
	p.inside, p.done = make([]count, len(p.Steps)), make([][]played, len(p.Steps))
	batches := 0
	for _, rows := range f.Rows {
		row := rows.Row
		size, err := p.BatchSize(&row)
		if err != nil {
			continue // these rows fail
		}
		batches += (rows.Rows + size - 1) / size
		p.coming = append(p.coming, comingRows{row: &stages.Element{Row: row}, size: size, whole: rows.Rows})
	}
	var expected []Expected
	for i := range p.coming {
		c := &p.coming[i]
		c.all = c.whole
		if batches > maxForeseen {
			c.all = min(c.whole, max(c.size, c.whole*maxForeseen/batches))
		}
		c.left = c.all
		expected = append(expected, Expected{c.row.Row, c.all})
	}
	p.Reset(expected)
	return p, nil
}

// ofWidth is a stage whose batches all use width devices, each with all weights.
type ofWidth struct {
	stages.Stage
	width int
}

// Capabilities returns only the capabilities that predictions use.
func (s ofWidth) Capabilities() stages.Capabilities {
	c := s.Stage.Capabilities()
	width := func(*schemas.PromptRow) int { return s.width }
	return stages.Capabilities{Cost: c.Cost, Spread: &stages.Spread{Width: width, Run: c.Spread.Run}}
}

// moveBatches moves finished batches to the next stage as far as it has room, and feeds new batches to the first stage.
func (p *play) moveBatches() {
	for i := len(p.Steps) - 1; i >= 0; i-- {
		last := i == len(p.Steps)-1
		for len(p.done[i]) > 0 && (last || p.room(i+1, p.done[i][0].elements)) {
			b := p.done[i][0]
			p.done[i] = p.done[i][1:]
			p.inside[i].batches--
			p.inside[i].rows -= len(b.elements)
			if !last {
				p.arrive(i+1, b)
				continue
			}
			rows := len(b.elements)
			p.ClosePassages(b.passage)
			if n := len(p.ends); n > 0 {
				rows += p.ends[n-1].rows
			}
			p.ends = append(p.ends, progress{p.clock.now, rows})
		}
	}
	for p.feed() {
	}
}

// room reports whether a stage accepts one more batch.
func (p *play) room(stage int, batch []*stages.Element) bool {
	return p.Room(stage, p.inside[stage].batches, p.inside[stage].rows, &batch[0].Row)
}

// feed moves the next batch to the first stage if it has room, and reports whether it did. It chooses the shape with the largest
// remaining fraction, as if rows of all shapes were mixed evenly.
func (p *play) feed() bool {
	if len(p.coming) == 0 {
		p.tail.close()
		return false
	}
	c := slices.MaxFunc(p.coming, func(a, b comingRows) int { return cmp.Compare(a.left*b.all, b.left*a.all) })
	if !p.room(0, []*stages.Element{c.row}) {
		return false
	}
	if c.left == 0 {
		p.tail.close()
		return false
	}
	n, shape := min(c.size, c.left), schemas.BucketOf(c.row.Row)
	for range n {
		p.Add(shape, &c.row.Row)
	}
	p.Dispatch(shape, &c.row.Row, n)
	p.coming[slices.IndexFunc(p.coming, func(o comingRows) bool { return o.row == c.row })].left -= n
	p.arrive(0, played{elements: slices.Repeat([]*stages.Element{c.row}, n)})
	return true
}

// arrive adds a batch to a stage, where it waits for devices.
func (p *play) arrive(stage int, b played) {
	p.inside[stage].batches++
	p.inside[stage].rows += len(b.elements)
	p.Arrive(stage, &stages.Batch{Elements: b.elements})
	t := p.Turn(stage, b.elements, Ask{})
	if p.Samples(stage) {
		b.passage = &Passage{}
		t.WithPassage(b.passage)
	}
	p.turns.join(t)
	p.waiting = append(p.waiting, waitingTurn{t, b})
}

// startGranted starts the batches that were granted devices.
func (p *play) startGranted() {
	p.waiting = slices.DeleteFunc(p.waiting, func(w waitingTurn) bool {
		select {
		case g := <-w.granted:
			if g.leader == nil { // otherwise its leader computes it
				p.startBatch(w, g)
			}
			return true
		default:
			return false
		}
	})
}

func (p *play) startBatch(w waitingTurn, g *Grant) {
	batches := []played{w.batch}
	for _, o := range g.joined {
		batches = append(batches, played{o.live, o.passage})
	}
	p.Start(g)
	took := time.Duration(p.seconds(g) * float64(time.Second))
	p.working = append(p.working, working{end: p.clock.now + took, stage: w.stage, took: took, grant: g, batches: batches})
	p.countLease(Lease{Stage: p.Steps[w.stage].Name, Shape: schemas.BucketOf(g.Live[0].Row), Elements: len(g.Live),
		Batches: len(batches), Devices: len(g.Devices), Seconds: took.Seconds() * float64(len(g.Devices))})
}

// countLease adds a lease to an equal one, or appends it.
func (p *play) countLease(l Lease) {
	for i := range p.leases {
		one := p.leases[i]
		if one.Times, one.Seconds = 0, l.Seconds; one == l {
			p.leases[i].Times++
			p.leases[i].Seconds += l.Seconds
			return
		}
	}
	l.Times = 1
	p.leases = append(p.leases, l)
}

// seconds returns how many seconds a batch takes on the devices of g, according to the cost model and with the current placement of
// weights; 0: unknown.
func (p *play) seconds(g *Grant) float64 {
	if g.cost == nil {
		return 0
	}
	key := costKey{g.stage, schemas.BucketOf(g.Live[0].Row)}
	return p.forecast.cached(question{"seconds", key, 0, len(g.Live), 0, fmt.Sprint(g.Devices)}, func() (s float64) {
		one := *g.cost
		if g.stage < len(p.foresight.Placements) {
			one = layout.Place(one, p.foresight.Placements[g.stage])
		}
		s, _ = layout.Seconds(one, len(g.Live), subset(p.foresight.Devices, g.Devices)) // 0: unknown
		return s
	})
}

// first returns the index of the running batch that finishes first; -1: none is running.
func (p *play) first() int {
	first := -1
	for i, w := range p.working {
		if first < 0 || w.end < p.working[first].end {
			first = i
		}
	}
	return first
}

// retryFirst reports whether a waiting batch is asked again before the next batch finishes. If so, it advances the clock to that
// time and asks it.
func (p *play) retryFirst() bool {
	at, first := p.clock.next(), p.first()
	if at < 0 || first >= 0 && p.working[first].end <= at {
		return false
	}
	p.clock.fire()
	return true
}

// finish advances the clock to the end of a running batch and finishes it.
func (p *play) finish(i int) {
	w := p.working[i]
	p.working = slices.Delete(p.working, i, i+1)
	p.clock.now = w.end
	p.done[w.stage] = append(p.done[w.stage], w.batches...)
	p.RecordTime(w.grant, w.took)
	p.Release(w.grant, nil)
}

// playedClock is a clock that only the simulation advances.
type playedClock struct {
	began time.Time
	now   time.Duration
	timer *timer // pending call; nil: none
}

// timer is a call that is due at a time.
type timer struct {
	at time.Duration
	f  func()
}

// Now implements Clock.
func (c *playedClock) Now() time.Time { return c.began.Add(c.now) }

// AfterFunc implements Clock, for one pending call: turns never have two.
func (c *playedClock) AfterFunc(d time.Duration, f func()) (stop func()) {
	t := &timer{c.now + d, f}
	c.timer = t
	return func() {
		if c.timer == t {
			c.timer = nil
		}
	}
}

// next returns when the pending call is due; -1: none is pending.
func (c *playedClock) next() time.Duration {
	if c.timer == nil {
		return -1
	}
	return c.timer.at
}

// fire advances the clock to the pending call and makes it.
func (c *playedClock) fire() {
	t := c.timer
	c.now, c.timer = t.at, nil
	t.f()
}
