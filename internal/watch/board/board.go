package board

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"
)

// firstRows is the number of row ids that a batch stores for display.
const firstRows = 8

// Board records what a process is doing. It is safe for concurrent use.
type Board struct {
	mu      sync.Mutex
	now     func() time.Time
	started time.Time
	stages  []string
	shapes  []*shape
	devices []*device
	batches map[*Batch]bool
	cells   map[cell]*spent
	// foreseen is the planned cost of a row in device seconds. A cell without an entry has no prediction.
	foreseen map[cell]float64
	publish  spent     // rows that were published, and seconds during which at least one publisher was working
	until    time.Time // end of the time that publish covers
	counts   Counts
	plan     Counts // rows that a run without work does not read, see Skip
	sinks    []Sink
}

// Counts counts the rows of a process by their outcome.
type Counts struct {
	Done, Failed         int64          // rows published in this run
	Bad, Shared, Skipped int64          // unusable rows, rows equal to others, rows settled by earlier runs
	First                string         // reason of the first failure
	Failures             map[string]int // number of failed rows by "class/stage"
}

// ShapeWork counts the rows of one shape that are to be computed.
type ShapeWork struct {
	Name   string
	Rows   int64   // number of different keys
	Weight float64 // cost of a row relative to rows of other shapes
}

// shape is a ShapeWork with its settled rows.
type shape struct {
	ShapeWork
	settled int64
}

// device is a device with its batches.
type device struct {
	name  string
	works map[*Batch]bool
	since time.Time     // start of the current work or idle time
	busy  time.Duration // time of finished work
}

// cell is a pair of a stage and a shape.
type cell struct{ stage, shape string }

// spent is the work that has finished in a cell.
type spent struct {
	seconds float64 // device seconds
	rows    int64
	batches int64
}

// New returns a board of a process that starts now.
func New(stages, devices []string) *Board {
	b := &Board{now: time.Now, stages: slices.Clone(stages), batches: map[*Batch]bool{}, cells: map[cell]*spent{}, foreseen: map[cell]float64{}}
	b.started = b.now()
	for _, name := range devices {
		b.devices = append(b.devices, &device{name: name, works: map[*Batch]bool{}, since: b.started})
	}
	return b
}

// AddSink adds a sink. It receives the spans that end from now on.
func (b *Board) AddSink(s Sink) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sinks = append(slices.Clip(b.sinks), s)
}

// WantsDetails reports whether a sink receives steps and exchanges.
func (b *Board) WantsDetails() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.sinks, func(s Sink) bool { return s.Details })
}

// Emit sends a span to the sinks that receive its kind.
func (b *Board) Emit(s Span) {
	b.mu.Lock()
	sinks := b.sinks
	b.mu.Unlock()
	detail := s.Kind == Step || s.Kind == Exchange
	for _, sink := range sinks {
		if !detail || sink.Details {
			sink.Record(s)
		}
	}
}

// Expect adds rows that are to be computed. It does not change the counts so far.
func (b *Board) Expect(shapes []ShapeWork) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range shapes {
		known := b.shape(s.Name)
		known.Rows, known.Weight = known.Rows+s.Rows, max(known.Weight, s.Weight)
	}
}

// Foreseen is the planned cost of a row of a shape in a stage, in device seconds.
type Foreseen struct {
	Stage, Shape string
	Seconds      float64
}

// Foresee sets the planned costs of rows. Measured costs take precedence over them.
func (b *Board) Foresee(costs []Foreseen) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range costs {
		b.foreseen[cell{c.Stage, c.Shape}] = c.Seconds
	}
}

// shape returns the shape called name, and adds it if necessary. The caller holds b.mu.
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

// Settled counts a row that was published. failure is "class/stage" of a failed row; "": the row is done. reason is the
// reason of the failure.
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

// Published counts rows that a publisher has written since began. Publishers work concurrently; time in which several of them work
// counts once.
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

// failed counts a failure. The caller holds b.mu.
func (b *Board) failed(failure, reason string) {
	if b.counts.First == "" {
		b.counts.First = reason
	}
	if b.counts.Failures == nil {
		b.counts.Failures = map[string]int{}
	}
	b.counts.Failures[failure]++
}

// Bad counts a row that cannot be read or is invalid.
func (b *Board) Bad(failure, reason string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts.Bad++
	b.failed(failure, reason)
}

// Skip sets the counts of a run that has nothing to compute: the rows that the ledger has, and the unusable rows by "class/stage".
// first is the reason of the first unusable row. Zero values reset the counts.
func (b *Board) Skip(skipped int64, unusable map[string]int, first string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.plan = Counts{Skipped: skipped, First: first, Failures: unusable}
	for _, n := range unusable {
		b.plan.Bad += int64(n)
	}
}

// all returns the sum of the counts and of the counts that Skip set. The caller holds b.mu.
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

// Shared counts a row that equals another row of this run.
func (b *Board) Shared() { b.count(&b.counts.Shared) }

// Skipped counts a row that an earlier run has settled.
func (b *Board) Skipped() { b.count(&b.counts.Skipped) }

// count increments a counter.
func (b *Board) count(n *int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	*n++
}

// Batch is a batch of rows that waits for devices or is on devices.
type Batch struct {
	board    *Board
	stage    string
	shape    string
	rows     []string
	count    int
	devices  []string
	memory   []int64   // see Span.Memory
	started  time.Time // start of waiting or working
	last     time.Time // time of its last step, or started
	step, of int
	note     string // why it makes no progress
}

// Wait records that a batch waits for devices.
func (b *Board) Wait(stage, shape string, count int, rows []string) *Batch {
	return b.startBatch(stage, shape, count, rows, nil)
}

// Work records that a batch is on devices.
func (b *Board) Work(stage, shape string, count int, rows, devices []string) *Batch {
	return b.startBatch(stage, shape, count, rows, devices)
}

// startBatch adds a batch; devices nil: it waits.
func (b *Board) startBatch(stage, shape string, count int, rows, devices []string) *Batch {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	x := &Batch{board: b, stage: stage, shape: shape, count: count, rows: slices.Clone(rows[:min(len(rows), firstRows)]),
		devices: devices, started: now, last: now}
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

// Step records that the batch has computed done of its steps.
func (x *Batch) Step(done, of int) {
	b := x.board
	b.mu.Lock()
	if of == x.of && done <= x.step { // another rank has reported the step
		b.mu.Unlock()
		return
	}
	now := b.now()
	s := x.span(Step, x.last, now)
	s.Name = "step"
	x.step, x.of, x.last = done, of, now
	b.mu.Unlock()
	b.Emit(s)
}

// SetWaiting records why the batch makes no progress; "": it does.
func (x *Batch) SetWaiting(note string) {
	x.board.mu.Lock()
	defer x.board.mu.Unlock()
	x.note = note
}

// SetMemory records the peak size in bytes of the batch's tensors on each of its devices.
func (x *Batch) SetMemory(memory []int64) { x.memory = memory }

// Finish records that the batch is done, or has failed with err.
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
	s := x.span(kind, x.started, now)
	b.mu.Unlock()
	if err != nil {
		s.Error = err.Error()
	}
	b.Emit(s)
}

// spend adds the cost of a finished batch to its cell. The caller holds b.mu.
func (b *Board) spend(x *Batch, now time.Time) {
	at := cell{x.stage, x.shape}
	if b.cells[at] == nil {
		b.cells[at] = &spent{}
	}
	c := b.cells[at]
	c.seconds += now.Sub(x.started).Seconds() * float64(len(x.devices))
	c.rows += int64(x.count)
	c.batches++
}

// span returns a span of the batch.
func (x *Batch) span(kind SpanKind, begin, end time.Time) Span {
	return Span{Kind: kind, Stage: x.stage, Shape: x.shape, Rows: x.rows, Count: x.count, Devices: x.devices,
		Memory: x.memory, Begin: begin, End: end}
}
