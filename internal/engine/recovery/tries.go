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

// firstPause is the wait before the second attempt of a batch; it doubles with each further attempt.
const firstPause = 200 * time.Millisecond

// Recovery holds the state that the attempts of a job share. It is safe for concurrent use.
type Recovery struct {
	Retries int // how many attempts an element gets at most while its errors are of class retry
	// Freed is called when at most stay blocks of a step remain resident; row is one of the rows that the step computes.
	Freed func(step int, row schemas.PromptRow, stay int)

	schedule *schedule.Schedule
	streams  streams
	doubts   doubts
}

// New returns a Recovery for batches whose devices come from schedule s.
func New(s *schedule.Schedule) *Recovery { return &Recovery{schedule: s} }

// Tries is the list of attempts that a batch still needs in a stage. It is empty once each element has its result or its failure.
type Tries struct {
	*Recovery
	stage int
	step  *stages.Step
	todo  []*Try // next attempt first
}

// Tries returns the attempts for a new batch.
func (r *Recovery) Tries(stage int, live []*stages.Element) *Tries {
	return &Tries{r, stage, &r.schedule.Steps[stage], []*Try{{Live: live}}}
}

// Try is one attempt: elements that are tried together, and on which devices.
type Try struct {
	schedule.Ask
	Live  []*stages.Element
	Pause time.Duration // before the attempt

	doubt   *doubt           // earlier result that was not finite; nil: none
	tries   int              // attempts made so far
	before  []stages.Element // copies of the elements before the attempt
	least   int              // devices that an element needed, as known before the attempt
	staying int              // resident blocks before the attempt
}

// Next returns the next attempt, or nil if all elements are settled. It splits a batch that is known not to fit.
func (b *Tries) Next() *Try {
	if len(b.todo) == 0 {
		return nil
	}
	t, learned := b.todo[0], &b.schedule.Learned
	b.todo = b.todo[1:]
	row := &t.Live[0].Row
	if t.tries == 0 {
		if n := learned.Fits(b.step.Name, row, len(t.Live)); n < len(t.Live) {
			b.tryNext(slices.Collect(slices.Chunk(t.Live, n)), Try{Ask: t.Ask, doubt: t.doubt})
			return b.Next()
		}
		t.before = copies(t.Live)
	}
	t.least, t.staying = learned.Devices(b.step.Name, row), b.staying()
	return t
}

// tryNext schedules each group of elements as the next attempt, with the options of t.
func (b *Tries) tryNext(groups [][]*stages.Element, t Try) {
	var tries []*Try
	for _, live := range groups {
		one := t
		one.Live = live
		tries = append(tries, &one)
	}
	b.todo = append(tries, b.todo...)
}

// tryAlone schedules each element as an attempt of its own, with the options of t.
func (b *Tries) tryAlone(live []*stages.Element, t Try) {
	if t.doubt != nil {
		t.doubt.open += len(live)
	}
	b.tryNext(slices.Collect(slices.Chunk(live, 1)), t)
}

// After decides what follows attempt t with outcome r. It returns only errors that end the job. Errors of class retry are
// tried again, on a smaller set of devices. To find the row that causes an error or panic, After runs the elements of a
// batch alone. If a device runs out of memory, the batch continues in halves, then on more devices, then with streamed
// weights. A result that is not finite is computed once more (see doubt).
func (b *Tries) After(t *Try, r schedule.Attempt) error {
	if r.Err == nil {
		b.examine(t, r.Devices)
		return nil
	}
	restore(t.Live, t.before)
	last := max(1, b.Retries) - 1
	switch noMemory := fault.IsOutOfMemory(r.Err); {
	case noMemory && b.relieve(t, len(r.Devices)):
		b.tryNext([][]*stages.Element{t.Live}, Try{Ask: schedule.Ask{Avoid: t.Avoid}, doubt: t.doubt})
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

// narrow continues with a batch that repeated attempts would not help.
func (b *Tries) narrow(t *Try, r schedule.Attempt) {
	notFinite := fault.IsNotFinite(r.Err)
	switch {
	case notFinite && r.Elements == 1:
		b.suspect(t.Live[0], r.Err, r.Devices, t)
	case len(t.Live) == 1 && r.Elements <= 1:
		b.fail(t.Live[0], r.Err, t)
	case notFinite:
		b.tryAlone(t.Live, b.elsewhere(&t.Live[0].Row, r.Err, r.Devices))
	default:
		b.tryAlone(t.Live, Try{Ask: schedule.Ask{Cap: 1}})
	}
}

// fail settles an element as a failure. Its message gives the number of tries if there were several.
func (b *Tries) fail(e *stages.Element, err error, t *Try) {
	if t.tries > 0 && fault.ClassOf(err) == fault.ClassRetry {
		err = fmt.Errorf("%w (%d tries)", err, t.tries+1)
	}
	e.Fail(b.step.Name, err)
	b.settled(e, t)
}

// examine checks the results of a successful attempt on these devices.
func (b *Tries) examine(t *Try, devices []int) {
	for i, e := range slices.Backward(t.Live) { // backward, so that the first suspect is tried first
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
			t.doubt.healthy = devices
		}
		b.settled(e, t)
	}
}

// suspect handles an element whose result on these devices was not finite: it schedules an attempt elsewhere, or fails the element.
func (b *Tries) suspect(e *stages.Element, err error, devices []int, t *Try) {
	if t.doubt != nil {
		if here, there := b.labels(t.doubt.devices), b.labels(devices); here != there {
			slog.Warn("a result is not finite, on another device neither: the row fails", "stage", b.step.Name,
				"device", here, "again_on", there, "error", err)
		}
	} else if again := b.elsewhere(&e.Row, err, devices); again.doubt != nil {
		b.tryAlone([]*stages.Element{e}, again)
		return
	}
	b.fail(e, err, t)
}

// settled records that an element is settled. When all elements of a doubt have been computed alone with finite results,
// settled reports the devices of the first attempt as suspect.
func (b *Tries) settled(e *stages.Element, t *Try) {
	d := t.doubt
	if d == nil {
		return
	}
	d.open--
	d.failed = d.failed || e.Failed != nil
	if d.open == 0 && d.healthy != nil && !d.failed {
		b.cleared(d)
	}
}

// relieve records that memory ran out and reports whether another attempt can help: with fewer elements, else on more
// devices, else with fewer resident weights than before the attempt.
func (b *Tries) relieve(t *Try, devices int) bool {
	row := &t.Live[0].Row
	return b.schedule.Learned.OutOfMemory(b.step.Name, row, memory.Shortage{Elements: len(t.Live), Devices: devices,
		Widest: b.schedule.Widest(b.stage, row), Least: t.least, Limit: b.schedule.Pool.Memory().Limit}) ||
		b.stream(row, t.staying)
}

// copies copies the elements before a stage runs, because a stage that fails may have changed some of them.
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
