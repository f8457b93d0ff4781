package board

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"
)

// firstRows is how many ids of a batch are kept for people.
const firstRows = 8

// Board holds what a process is doing. It is safe for concurrent use.
type Board struct {
	mu      sync.Mutex
	now     func() time.Time
	began   time.Time
	stages  []string
	shapes  []*shape
	devices []*device
	batches map[*Batch]bool
	cells   map[cell]*spent
	// foreseen is what a row costs by the plan, in seconds of devices; what is not in it, nobody has predicted.
	foreseen map[cell]float64
	publish  spent     // groups of rows: seconds in which some publisher was at work
	until    time.Time // publish covers the time before
	counts   Counts
	plan     Counts // rows that need no work and that nothing reads in this run
	sinks    []Sink
}

// Counts are rows of a process that came to an end without being progress, and failures.
type Counts struct {
	Done, Failed         int64 // published in this run
	Bad, Shared, Skipped int64
	First                string         // reason of the first failure
	Failures             map[string]int // failed rows by "class/stage"
}

// ShapeWork is rows of one shape that are to be computed.
type ShapeWork struct {
	Name   string
	Rows   int64   // each key once
	Weight float64 // what a row costs, relative to other shapes
}

type shape struct {
	ShapeWork
	settled int64
}

type device struct {
	name  string
	works map[*Batch]bool
	since time.Time
	busy  time.Duration // of works that have ended
}

// cell is a stage at rows of a shape.
type cell struct{ stage, shape string }

type spent struct {
	seconds float64 // of devices
	rows    int64
	batches int64
}

// New returns a board of a process that begins now.
func New(stages, devices []string) *Board {
	b := &Board{now: time.Now, stages: slices.Clone(stages), batches: map[*Batch]bool{}, cells: map[cell]*spent{}, foreseen: map[cell]float64{}}
	b.began = b.now()
	for _, name := range devices {
		b.devices = append(b.devices, &device{name: name, works: map[*Batch]bool{}, since: b.began})
	}
	return b
}

// Add lets a sink take the spans that end from now on.
func (b *Board) Add(s Sink) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sinks = append(slices.Clip(b.sinks), s)
}

// WantsSmall reports whether anybody takes steps and exchanges.
func (b *Board) WantsSmall() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.sinks, func(s Sink) bool { return s.Small })
}

// Publish gives a span to those who want it.
func (b *Board) Publish(s Span) {
	b.mu.Lock()
	sinks := b.sinks
	b.mu.Unlock()
	small := s.Kind == Step || s.Kind == Exchange
	for _, sink := range sinks {
		if !small || sink.Small {
			sink.Take(s)
		}
	}
}

// Expect says which rows are to be computed. What was counted before stays.
func (b *Board) Expect(shapes []ShapeWork) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range shapes {
		known := b.shape(s.Name)
		known.Rows, known.Weight = known.Rows+s.Rows, max(known.Weight, s.Weight)
	}
}

// Foreseen is what the plan says that a row of a shape costs in a stage, in seconds of devices.
type Foreseen struct {
	Stage, Shape string
	Seconds      float64
}

// Foresee says what rows are predicted to cost. What they are seen to cost stands above it.
func (b *Board) Foresee(costs []Foreseen) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range costs {
		b.foreseen[cell{c.Stage, c.Shape}] = c.Seconds
	}
}

// shape returns the shape of that name; mu is held.
func (b *Board) shape(name string) *shape {
	for _, s := range b.shapes {
		if s.Name == name {
			return s
		}
	}
	s := &shape{ShapeWork: ShapeWork{Name: name}}
	b.shapes = append(b.shapes, s)
	return s
}

// Settled counts a row that was published. failure is its class and stage with a slash, "" where it is done; reason
// says why it failed.
func (b *Board) Settled(shapeName, failure, reason string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shape(shapeName).settled++
	if failure == "" {
		b.counts.Done++
		return
	}
	b.counts.Failed++
	b.failed(failure, reason)
}

// Published counts rows that a publisher has had at work since began. Publishers work side by side: time that two of
// them share counts once.
func (b *Board) Published(began time.Time, rows int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if began.Before(b.until) {
		began = b.until
	}
	b.publish.seconds += now.Sub(began).Seconds()
	b.publish.rows += int64(rows)
	b.until = now
}

func (b *Board) failed(failure, reason string) {
	if b.counts.First == "" {
		b.counts.First = reason
	}
	if b.counts.Failures == nil {
		b.counts.Failures = map[string]int{}
	}
	b.counts.Failures[failure]++
}

// Bad counts a row that cannot be read or used.
func (b *Board) Bad(failure, reason string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts.Bad++
	b.failed(failure, reason)
}

// Skip sets the rows of a run that has nothing to compute: skipped ones, that the ledger has, and unusable ones by class and
// stage; first is the reason of the first of them. Zeros take back what was set before.
func (b *Board) Skip(skipped int64, unusable map[string]int, first string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.plan = Counts{Skipped: skipped, First: first, Failures: unusable}
	for _, n := range unusable {
		b.plan.Bad += int64(n)
	}
}

// all is what was counted and what the plan says; mu is held.
func (b *Board) all() Counts {
	c := b.counts
	c.Skipped, c.Bad, c.First = c.Skipped+b.plan.Skipped, c.Bad+b.plan.Bad, cmp.Or(c.First, b.plan.First)
	c.Failures = maps.Clone(c.Failures)
	for name, n := range b.plan.Failures {
		if c.Failures == nil {
			c.Failures = map[string]int{}
		}
		c.Failures[name] += n
	}
	return c
}

// Shared counts a row that equals another one of this run, Skipped one that the ledger has.
func (b *Board) Shared() { b.count(&b.counts.Shared) }

// Skipped counts a row that the ledger has.
func (b *Board) Skipped() { b.count(&b.counts.Skipped) }

func (b *Board) count(n *int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	*n++
}

// Batch is rows that a stage has in hand.
type Batch struct {
	board    *Board
	stage    string
	shape    string
	rows     []string
	count    int
	devices  []string
	memory   []int64   // as of a Span
	begun    time.Time // it waits or works since then
	last     time.Time // of its last step, or begun
	step, of int
	note     string // why it does not move
}

// Wait notes that a batch waits for devices.
func (b *Board) Wait(stage, shape string, count int, rows []string) *Batch {
	return b.startBatch(stage, shape, count, rows, nil)
}

// Work notes that a batch is on devices.
func (b *Board) Work(stage, shape string, count int, rows, devices []string) *Batch {
	return b.startBatch(stage, shape, count, rows, devices)
}

func (b *Board) startBatch(stage, shape string, count int, rows, devices []string) *Batch {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	x := &Batch{board: b, stage: stage, shape: shape, count: count, rows: slices.Clone(rows[:min(len(rows), firstRows)]),
		devices: devices, begun: now, last: now}
	b.batches[x] = true
	for _, d := range b.devices {
		if slices.Contains(devices, d.name) {
			if len(d.works) == 0 {
				d.since = now
			}
			d.works[x] = true
		}
	}
	return x
}

// Step notes that done of a number of steps are taken.
func (x *Batch) Step(done, of int) {
	b := x.board
	b.mu.Lock()
	if of == x.of && done <= x.step { // another rank has said so
		b.mu.Unlock()
		return
	}
	now := b.now()
	s := x.span(Step, x.last, now)
	s.Name = "step"
	x.step, x.of, x.last = done, of, now
	b.mu.Unlock()
	b.Publish(s)
}

// SetWaiting notes why the batch does not move, "" when it does.
func (x *Batch) SetWaiting(note string) {
	x.board.mu.Lock()
	defer x.board.mu.Unlock()
	x.note = note
}

// Held notes the most bytes of tensors that each device of the batch held for it.
func (x *Batch) Held(memory []int64) { x.memory = memory }

// Finish notes that the batch is done, or has failed with err.
func (x *Batch) Finish(err error) {
	b := x.board
	b.mu.Lock()
	now := b.now()
	delete(b.batches, x)
	for _, d := range b.devices {
		if d.works[x] {
			delete(d.works, x)
			if len(d.works) == 0 {
				d.busy += now.Sub(d.since)
				d.since = now
			}
		}
	}
	kind := Wait
	if x.devices != nil {
		kind = Work
		if err == nil {
			b.spend(x, now)
		}
	}
	s := x.span(kind, x.begun, now)
	b.mu.Unlock()
	if err != nil {
		s.Error = err.Error()
	}
	b.Publish(s)
}

// spend notes what a batch has cost; mu is held.
func (b *Board) spend(x *Batch, now time.Time) {
	at := cell{x.stage, x.shape}
	if b.cells[at] == nil {
		b.cells[at] = &spent{}
	}
	c := b.cells[at]
	c.seconds += now.Sub(x.begun).Seconds() * float64(len(x.devices))
	c.rows += int64(x.count)
	c.batches++
}

func (x *Batch) span(kind SpanKind, begin, end time.Time) Span {
	return Span{Kind: kind, Stage: x.stage, Shape: x.shape, Rows: x.rows, Count: x.count, Devices: x.devices,
		Memory: x.memory, Begin: begin, End: end}
}
