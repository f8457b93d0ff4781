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

// A row may kill the process that computes it, through a driver fault or because the system runs out of memory. An
// engine such as Flink starts another process and retries for ever. So rows are marked in the output before they start.
// After a death the rows that were running are suspects. They are computed last, in groups, with nothing else running.
// A group that kills the process again is divided further. A row fails after three deaths if it ran alone in two of
// them.

// suspects holds the rows of a bundle that were running when a process died.
type suspects struct {
	known map[schemas.Key]Suspect
	kept  []*stages.Element
}

// retain retains a suspect for the end of the bundle and returns true; other elements are not retained.
func (s *suspects) retain(e *stages.Element) bool {
	if _, found := s.known[e.Key]; found {
		s.kept = append(s.kept, e)
		return true
	}
	return false
}

// errGuilty is the failure of a row that kills processes.
var errGuilty = errors.New("the process that computes this row dies, each time: three workers did")

// parts is the number of groups that suspects are divided into.
const parts = 16

// groups divides the suspects into groups of rows of one shape. Few suspects are computed alone.
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

// suspected emits the suspects group by group, each when nothing else is running.
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
			size = 1 // the stages report the error
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

// settlePause is the interval at which drain emits empty batches.
const settlePause = 20 * time.Millisecond

// drain waits until all elements that the bundle has emitted are published. It emits empty batches meanwhile, because a stage
// passes finished batches on only when it is called.
func (f *Buckets) drain(emit func(*stages.Batch)) {
	for f.engine.Spread.inFlight.has(f) && !f.engine.Schedule.Stopping() && f.ctx.Err() == nil {
		emit(&stages.Batch{})
		time.Sleep(settlePause)
	}
}

// emit emits a batch. In a job of several processes it marks the rows first.
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
	s.inFlight.start(f, keys)
	emit(b)
}

// BucketsOf returns empty buckets for one bundle of a job of several processes; ctx is the bundle's context.
func (e *Engine) BucketsOf(ctx context.Context) (*Buckets, error) {
	f := e.Buckets()
	f.ctx = ctx
	var err error
	f.suspects.known, err = e.Spread.StartBundle(ctx)
	return f, err
}

// inFlight tracks running rows by the bundle that emitted them.
type inFlight struct {
	mu  sync.Mutex
	of  map[schemas.Key]*Buckets
	out map[*Buckets]int
}

func (f *inFlight) start(b *Buckets, keys []schemas.Key) {
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

// remove removes a row. The caller holds the lock.
func (f *inFlight) remove(k schemas.Key) {
	if b := f.of[k]; b != nil {
		delete(f.of, k)
		if f.out[b]--; f.out[b] == 0 {
			delete(f.out, b)
		}
	}
}

func (f *inFlight) finish(keys []schemas.Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, k := range keys {
		f.remove(k)
	}
}

func (f *inFlight) has(b *Buckets) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.out[b] > 0
}

// settledRows records that rows are published.
func (e *Engine) settledRows(keys []schemas.Key) {
	if e.Spread != nil {
		e.Spread.inFlight.finish(keys)
		e.Spread.Done(keys)
	}
}

// Broken releases the passages of bundles that never finished.
func (e *Engine) Broken() { e.passing.clear(e.Schedule) }
