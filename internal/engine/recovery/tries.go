package recovery

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"latentbeam/internal/engine/memory"
	"latentbeam/internal/engine/schedule"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// firstPause is the wait before the second attempt of a batch; it doubles with each further one.
const firstPause = 200 * time.Millisecond

// Recovery is what the batches of a job share. It is safe for concurrent use.
type Recovery struct {
	Retries int // attempts at an element when the world fails
	// Freed is told when no more than stay blocks of a step remain in memory; row is one of those that it computes.
	Freed func(step int, row schemas.PromptRow, stay int)

	schedule *schedule.Schedule
	streams  streams
	doubts   doubts
}

// New returns the recovery of batches that get their devices from a schedule.
func New(s *schedule.Schedule) *Recovery { return &Recovery{schedule: s} }

// Tries is what is left to try of a batch of a stage, until each of its elements has its result or its failure.
type Tries struct {
	*Recovery
	stage int
	step  *stages.Step
	todo  []*Try // the next first
}

// Tries returns those of a batch that nobody has tried yet.
func (r *Recovery) Tries(stage int, live []*stages.Element) *Tries {
	return &Tries{r, stage, &r.schedule.Steps[stage], []*Try{{Live: live}}}
}

// Try is elements that are tried together, and how.
type Try struct {
	schedule.Ask
	Live  []*stages.Element
	Pause time.Duration // before the attempt

	doubt   *doubt           // what was not finite before; nil: nothing
	tries   int              // attempts that were made
	before  []stages.Element // the elements as they were
	least   int              // devices that an element was known to need before the attempt
	staying int              // blocks that stayed in memory before the attempt
}

// Next returns what is to be tried next, nil where everything is settled. What is known not to fit goes in parts.
func (b *Tries) Next() *Try {
	if len(b.todo) == 0 {
		return nil
	}
	t, learned := b.todo[0], &b.schedule.Learned
	b.todo = b.todo[1:]
	row := &t.Live[0].Row
	if t.tries == 0 {
		if n := learned.Fits(b.step.Name, row, len(t.Live)); n < len(t.Live) {
			b.eachOf(slices.Collect(slices.Chunk(t.Live, n)), Try{Ask: t.Ask, doubt: t.doubt})
			return b.Next()
		}
		t.before = copies(t.Live)
	}
	t.least, t.staying = learned.Devices(b.step.Name, row), b.staying()
	return t
}

// eachOf lets groups of elements be tried next, each like t.
func (b *Tries) eachOf(groups [][]*stages.Element, t Try) {
	var tries []*Try
	for _, live := range groups {
		one := t
		one.Live = live
		tries = append(tries, &one)
	}
	b.todo = append(tries, b.todo...)
}

// alone lets elements be tried next, each by itself like t.
func (b *Tries) alone(live []*stages.Element, t Try) {
	if t.doubt != nil {
		t.doubt.open += len(live)
	}
	b.eachOf(slices.Collect(slices.Chunk(live, 1)), t)
}

// After takes how an attempt went, and decides what follows. Only an error that ends the job comes back. Errors of the
// world are tried again, a set of devices that failed is tried smaller, and an error or panic of a batch is narrowed
// down by running its elements alone. Where a device runs out of memory, the batch goes on in halves, then on more
// devices, then with weights that pass through memory. What is not finite is computed once more (see doubt).
func (b *Tries) After(t *Try, r schedule.Attempt) error {
	if r.Err == nil {
		b.examine(t, r.Devices)
		return nil
	}
	restore(t.Live, t.before)
	last := max(1, b.Retries) - 1
	switch noMemory := fault.IsOutOfMemory(r.Err); {
	case noMemory && b.relieve(t, len(r.Devices)):
		b.eachOf([][]*stages.Element{t.Live}, Try{Ask: schedule.Ask{Avoid: t.Avoid}, doubt: t.doubt})
		return nil
	case !noMemory && fault.ClassOf(r.Err) == fault.ClassRetry && t.tries < last:
		t.Pause = firstPause << t.tries
		if t.tries++; t.tries == last {
			t.Cap = 1
		} else {
			t.Cap = max(1, len(r.Devices)-1)
		}
		b.todo = append([]*Try{t}, b.todo...)
		return nil
	case fault.ClassOf(r.Err) == fault.ClassFatal:
		return fmt.Errorf("%s: %w", b.step.Name, r.Err)
	}
	b.narrow(t, r)
	return nil
}

// narrow goes on with a batch that more attempts would not help.
func (b *Tries) narrow(t *Try, r schedule.Attempt) {
	notFinite := fault.IsNotFinite(r.Err)
	switch {
	case notFinite && r.Elements == 1:
		b.suspect(t.Live[0], r.Err, r.Devices, t)
	case len(t.Live) == 1 && r.Elements <= 1:
		b.fail(t.Live[0], r.Err, t)
	case notFinite:
		b.alone(t.Live, b.elsewhere(&t.Live[0].Row, r.Err, r.Devices))
	default:
		b.alone(t.Live, Try{Ask: schedule.Ask{Cap: 1}})
	}
}

// fail settles an element as a failure. One that was tried more than once says so.
func (b *Tries) fail(e *stages.Element, err error, t *Try) {
	if t.tries > 0 && fault.ClassOf(err) == fault.ClassRetry {
		err = fmt.Errorf("%w (%d tries)", err, t.tries+1)
	}
	e.Fail(b.step.Name, err)
	b.settled(e, t)
}

// examine looks at what an attempt has given on these devices.
func (b *Tries) examine(t *Try, devices []int) {
	for i, e := range slices.Backward(t.Live) { // what is in doubt is tried next, the first element first
		why := ""
		if e.Failed == nil {
			why = e.NotFinite(b.step.Gives)
		}
		if why != "" {
			restore(t.Live[i:i+1], t.before[i:i+1])
			b.suspect(e, fault.NotFinite(errors.New(why)), devices, t)
			continue
		}
		if t.doubt != nil && e.Failed == nil {
			t.doubt.well = devices
		}
		b.settled(e, t)
	}
}

// suspect lets an element be tried elsewhere whose result on these devices was not finite, or fails it.
func (b *Tries) suspect(e *stages.Element, err error, devices []int, t *Try) {
	if t.doubt != nil {
		if here, there := b.labels(t.doubt.devices), b.labels(devices); here != there {
			slog.Warn("a result is not finite, on another device neither: the row fails", "stage", b.step.Name,
				"device", here, "again_on", there, "error", err)
		}
	} else if again := b.elsewhere(&e.Row, err, devices); again.doubt != nil {
		b.alone([]*stages.Element{e}, again)
		return
	}
	b.fail(e, err, t)
}

// settled notes that an element is done with. Where all give a finite result that together gave none, it tells.
func (b *Tries) settled(e *stages.Element, t *Try) {
	d := t.doubt
	if d == nil {
		return
	}
	d.open--
	d.failed = d.failed || e.Failed != nil
	if d.open == 0 && d.well != nil && !d.failed {
		b.cleared(d)
	}
}

// relieve notes that memory ran out and reports whether the batch is worth another try: in parts, else on more
// devices than the least that was known, else beside fewer weights than the staying blocks that it was tried with.
func (b *Tries) relieve(t *Try, devices int) bool {
	row := &t.Live[0].Row
	return b.schedule.Learned.OutOfMemory(b.step.Name, row, memory.Shortage{Elements: len(t.Live), Devices: devices,
		Widest: b.schedule.Widest(b.stage, row), Least: t.least, Limit: b.schedule.Pool.Memory().Limit}) ||
		b.stream(row, t.staying)
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
