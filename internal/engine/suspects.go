package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// A row may kill the process that computes it: by a fault of a driver, or by memory that the system does not have. An
// engine such as Flink starts another process and tries for ever. So rows are marked in the output before they are begun.
// After a death the rows that were at work are suspects. They are computed last, in groups, with nothing else at work;
// a group with which the process dies again is divided further. The row that was alone at two deaths, of three in all,
// is a failure.

// suspects are the rows of a bundle with which processes have died.
type suspects struct {
	known map[schemas.Key]Suspect
	kept  []*stages.Element
}

// retain keeps an element for the end of the bundle if it is a suspect.
func (s *suspects) retain(e *stages.Element) bool {
	if _, found := s.known[e.Key]; found {
		s.kept = append(s.kept, e)
		return true
	}
	return false
}

// errGuilty is the failure of a row with which processes die.
var errGuilty = errors.New("the process that computes this row dies, each time: three workers did")

// parts is into how many groups suspects are divided.
const parts = 16

// groups divides the suspects into rows of one shape which are computed together, alone where there are few.
func (s *suspects) groups() (all [][]*stages.Element) {
	size := func(e *stages.Element) int { return max(1, s.known[e.Key].Among/parts) }
	for _, e := range s.kept {
		i := len(all) - 1
		if i < 0 || len(all[i]) >= size(e) || len(all[i]) >= size(all[i][0]) ||
			schemas.BucketOf(all[i][0].Row) != schemas.BucketOf(e.Row) || s.known[e.Key].Guilty != s.known[all[i][0].Key].Guilty {
			all = append(all, nil)
			i++
		}
		all[i] = append(all[i], e)
	}
	return all
}

// suspected emits the suspects, group by group, each when nothing else is at work.
func (f *Buckets) suspected(emit func(*stages.Batch)) {
	for _, group := range f.suspects.groups() {
		if f.engine.Schedule.Stopping() || f.err != nil {
			return
		}
		name, row := schemas.BucketOf(group[0].Row), &group[0].Row
		for _, e := range group {
			if f.suspects.known[e.Key].Guilty {
				e.Fail("worker", fault.Row(errGuilty))
			}
			f.engine.Schedule.Add(name, &e.Row)
		}
		size, err := f.engine.Schedule.BatchSize(row)
		if err != nil {
			size = 1 // the stages say what is wrong
		}
		for part := range slices.Chunk(group, max(1, size)) {
			f.drain(emit)
			f.engine.Schedule.CloseInput()
			f.engine.Schedule.Dispatch(name, row, len(part))
			f.emit(&stages.Batch{Bucket: name, Elements: part}, true, emit)
		}
	}
	if len(f.suspects.kept) > 0 {
		f.drain(emit)
	}
}

// settlePause is how often a bundle that waits for its own end lets the stages behind it go on.
const settlePause = 20 * time.Millisecond

// drain waits until all that the bundle has emitted is published. Empty batches push what is finished through the
// stages: nothing moves in a bundle unless somebody is called.
func (f *Buckets) drain(emit func(*stages.Batch)) {
	for f.engine.Spread.atWork.has(f) && !f.engine.Schedule.Stopping() && f.ctx.Err() == nil {
		emit(&stages.Batch{})
		time.Sleep(settlePause)
	}
}

// emit sends a batch on its way. In a job that is spread its rows are marked before.
func (f *Buckets) emit(b *stages.Batch, alone bool, emit func(*stages.Batch)) {
	s := f.engine.Spread
	if s == nil {
		emit(b)
		return
	}
	if f.err != nil {
		return
	}
	keys := make([]schemas.Key, len(b.Elements))
	for i, e := range b.Elements {
		keys[i] = e.Key
	}
	if f.err = s.Mark(f.ctx, keys, alone); f.err != nil {
		return
	}
	s.atWork.start(f, keys)
	emit(b)
}

// BucketsOf returns empty buckets for one bundle of a job that is spread; ctx is the bundle's.
func (e *Engine) BucketsOf(ctx context.Context) (*Buckets, error) {
	f := e.Buckets()
	f.ctx = ctx
	var err error
	f.suspects.known, err = e.Spread.Begin(ctx)
	return f, err
}

// atWork knows the rows that are at work, by the bundle that has emitted them.
type atWork struct {
	mu  sync.Mutex
	of  map[schemas.Key]*Buckets
	out map[*Buckets]int
}

func (f *atWork) start(b *Buckets, keys []schemas.Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of == nil {
		f.of, f.out = map[schemas.Key]*Buckets{}, map[*Buckets]int{}
	}
	for _, k := range keys {
		f.remove(k)
		f.of[k] = b
		f.out[b]++
	}
}

// remove takes a row out; the lock is held.
func (f *atWork) remove(k schemas.Key) {
	if b := f.of[k]; b != nil {
		delete(f.of, k)
		if f.out[b]--; f.out[b] == 0 {
			delete(f.out, b)
		}
	}
}

func (f *atWork) finish(keys []schemas.Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, k := range keys {
		f.remove(k)
	}
}

func (f *atWork) has(b *Buckets) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.out[b] > 0
}

// settledRows notes that rows are published.
func (e *Engine) settledRows(keys []schemas.Key) {
	if e.Spread != nil {
		e.Spread.atWork.finish(keys)
		e.Spread.Done(keys)
	}
}

// Broken gives up what bundles have left behind that never came to an end.
func (e *Engine) Broken() { e.passing.clear(e.Schedule) }
