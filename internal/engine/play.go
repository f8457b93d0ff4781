package engine

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"latentbeam/internal/plan/layout"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// play is a run that is played through.
type play struct {
	Foresight
	engine  *Engine
	stages  []*Station
	coming  []comingRows
	inside  []int         // batches in each stage
	done    [][]played    // of each stage, that the next has no room for yet
	waiting []waitingTurn // for devices
	working []working
	began   time.Time
	now     time.Duration
	leases  []Lease
	ends    []ending // of the last stage
}

// comingRows are the rows of a shape that were not fed yet.
type comingRows struct {
	row              *stages.Element
	size             int // of a batch
	all, left, whole int // rows that are played, of these not begun, and of the job
}

// played is a batch.
type played []*stages.Element

type waitingTurn struct {
	*turn
	batch played
}

// working is a batch at work.
type working struct {
	end     time.Duration
	stage   int
	devices []int
	batches []played
	learn   func()
}

// ending is how many rows were done at a time.
type ending struct {
	at   time.Duration
	rows int
}

// play prepares it.
func (f Foresight) play() (*play, error) {
	if f.seen == nil {
		f = f.Again()
	}
	p := &play{Foresight: f, began: time.Now()}
	p.engine = &Engine{Steps: slices.Clone(f.Steps), Pool: f.Pool, MaxBatch: f.MaxBatch}
	p.engine.turns.clock = func() time.Time { return p.began.Add(p.now) }
	p.engine.Recall(f.Facts)
	p.engine.forecast.open()
	p.engine.forecast.costs, p.engine.forecast.needs = f.seen.forecast.costs, f.seen.forecast.needs
	p.engine.forecast.model, p.engine.forecast.fit = f.seen.forecast.model, f.seen.forecast.fit
	for i := range p.engine.Steps {
		s := &p.engine.Steps[i]
		if c := s.Capabilities(); f.Width > 0 && c.Spread != nil && c.Cost != nil {
			if cost, err := c.Cost(&f.Rows[0].Row); err == nil && cost.Split != nil {
				s.Stage = ofWidth{s.Stage, f.Width}
			}
		}
		p.stages = append(p.stages, &Station{index: i, engine: p.engine, step: s})
	}
	p.inside, p.done = make([]int, len(p.stages)), make([][]played, len(p.stages))
	batches := 0
	for _, rows := range f.Rows {
		row := rows.Row
		size, err := p.engine.BatchSize(&row)
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
	p.engine.tail.reset(expected)
	return p, nil
}

// ofWidth is a stage whose batches have so many devices, each with all weights.
type ofWidth struct {
	stages.Stage
	width int
}

// Capabilities are those that a batch is timed by.
func (s ofWidth) Capabilities() stages.Capabilities {
	c := s.Stage.Capabilities()
	width := func(*schemas.PromptRow) int { return s.width }
	return stages.Capabilities{Cost: c.Cost, Spread: &stages.Spread{Width: width, Run: c.Spread.Run}}
}

// pass takes batches that are done to the next stage as far as it has room, and new ones to the first.
func (p *play) pass() {
	for i := len(p.stages) - 1; i >= 0; i-- {
		last := i == len(p.stages)-1
		for len(p.done[i]) > 0 && (last || p.inside[i+1] < p.stages[i+1].limit()) {
			b := p.done[i][0]
			p.done[i] = p.done[i][1:]
			if p.inside[i]--; !last {
				p.arrive(i+1, b)
				continue
			}
			rows := len(b)
			if n := len(p.ends); n > 0 {
				rows += p.ends[n-1].rows
			}
			p.ends = append(p.ends, ending{p.now, rows})
		}
	}
	for p.inside[0] < p.stages[0].limit() && p.feed() {
	}
}

// feed takes the next batch to the first stage: of the shape of which the largest part is left, as if rows of all
// shapes were mixed evenly.
func (p *play) feed() bool {
	if len(p.coming) == 0 {
		p.engine.tail.end()
		return false
	}
	c := slices.MaxFunc(p.coming, func(a, b comingRows) int { return cmp.Compare(a.left*b.all, b.left*a.all) })
	if c.left == 0 {
		p.engine.tail.end()
		return false
	}
	n, shape := min(c.size, c.left), schemas.BucketOf(c.row.Row)
	for range n {
		p.engine.tail.add(shape, &c.row.Row)
	}
	p.engine.tail.pass(shape, &c.row.Row, n)
	p.coming[slices.IndexFunc(p.coming, func(o comingRows) bool { return o.row == c.row })].left -= n
	p.arrive(0, slices.Repeat(played{c.row}, n))
	return true
}

// arrive lets a batch wait for devices.
func (p *play) arrive(stage int, b played) {
	p.inside[stage]++
	p.engine.tail.arrive(stage, schemas.BucketOf(b[0].Row), &b[0].Row, len(b))
	t := p.stages[stage].turn(b, trial{})
	t.granted = make(chan grant, 1)
	p.engine.turns.waiting = append(p.engine.turns.waiting, t)
	p.waiting = append(p.waiting, waitingTurn{t, b})
}

// start begins what was granted.
func (p *play) start() {
	p.waiting = slices.DeleteFunc(p.waiting, func(w waitingTurn) bool {
		select {
		case g := <-w.granted:
			if g.leader == nil { // else it goes with the one that leads
				p.begin(w, g)
			}
			return true
		default:
			return false
		}
	})
}

func (p *play) begin(w waitingTurn, g grant) {
	f, row := p.stages[w.stage], &w.batch[0].Row
	batches, all := []played{w.batch}, slices.Clone(w.batch)
	for _, o := range g.joined {
		batches, all = append(batches, o.live), append(all, o.live...)
	}
	cost, seconds, learn := f.expect(g.devices, all)
	p.engine.turns.begin(g.devices, func() (float64, bool) { return seconds(), p.engine.forecast.measured(w.stage) })
	took := time.Duration(p.seconds(w.stage, row, cost, len(all), g.devices) * float64(time.Second))
	p.working = append(p.working, working{end: p.now + took, stage: w.stage, devices: g.devices, batches: batches,
		learn: func() { learn(took) }})
	l := Lease{Stage: f.step.Name, Shape: schemas.BucketOf(*row), Elements: len(all), Batches: len(batches),
		Devices: len(g.devices)}
	p.note(l)
}

// note counts a lease.
func (p *play) note(l Lease) {
	for i := range p.leases {
		one := p.leases[i]
		if one.Times = 0; one == l {
			p.leases[i].Times++
			return
		}
	}
	l.Times = 1
	p.leases = append(p.leases, l)
}

// seconds is what the cost model says of a batch on these very devices.
func (p *play) seconds(stage int, row *schemas.PromptRow, cost *layout.Stage, k int, numbers []int) float64 {
	if cost == nil {
		return 0
	}
	key := fmt.Sprint(stage, schemas.BucketOf(*row), k, numbers)
	s, ok := p.seen.batches[key]
	if !ok {
		var devices []layout.Device
		for _, n := range numbers {
			devices = append(devices, p.Devices[n])
		}
		one := *cost
		if stage < len(p.Held) {
			one = layout.Hold(one, p.Held[stage])
		}
		s, _ = layout.Seconds(one, k, devices) // 0 where it cannot be said
		p.seen.batches[key] = s
	}
	return s
}

// first returns which batch is done first, -1 where none is at work.
func (p *play) first() int {
	first := -1
	for i, w := range p.working {
		if first < 0 || w.end < p.working[first].end {
			first = i
		}
	}
	return first
}

// late goes on to when a batch that waits is asked again, if that is before any is done, and reports whether it is.
func (p *play) late() bool {
	again := p.engine.turns.again
	if again.IsZero() {
		return false
	}
	at, first := again.Sub(p.began), p.first()
	if first >= 0 && p.working[first].end <= at {
		return false
	}
	p.now = at
	return true
}

// finish ends a batch that is done.
func (p *play) finish(i int) {
	w := p.working[i]
	p.working = slices.Delete(p.working, i, i+1)
	p.now = w.end
	p.done[w.stage] = append(p.done[w.stage], w.batches...)
	w.learn()
	p.engine.turns.release(p.engine.Pool, w.devices)
}
