package engine

import (
	"context"
	"slices"

	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
	"latentbeam/stages/video"
)

// maxBuffered bounds the elements that wait for their batches, however many buckets a table has.
const maxBuffered = 4096

// Buckets groups elements of one shape into batches. The batch size follows from the stages' memory needs. A Buckets belongs to
// one bundle: it shuffles nothing and retains no table.
type Buckets struct {
	engine   *Engine
	open     map[schemas.Bucket]*bucket
	order    []schemas.Bucket // of the open buckets, oldest first
	buffered int

	settled *stages.Batch // finished elements of one bucket that wait for more; nil: none

	// Of a job that is spread over processes:
	ctx      context.Context
	suspects suspects
	err      error
}

type bucket struct {
	size     int
	elements []*stages.Element
}

// Buckets returns empty buckets for one bundle.
func (e *Engine) Buckets() *Buckets {
	return &Buckets{engine: e, open: map[schemas.Bucket]*bucket{}}
}

// Add puts e into its bucket and emits the batch when it is full.
func (f *Buckets) Add(e *stages.Element, emit func(*stages.Batch)) {
	if f.suspects.retain(e) {
		return
	}
	name := schemas.BucketOf(e.Row)
	if e.Settled != nil {
		f.addSettled(name, e, emit)
		return
	}
	b := f.open[name]
	if b == nil {
		size, err := f.engine.Schedule.BatchSize(&e.Row)
		if err != nil {
			e.Fail("plan", fault.Row(err))
			f.engine.Schedule.Add(name, &e.Row)
			f.engine.Schedule.Dispatch(name, &e.Row, 1)
			f.emit(&stages.Batch{Bucket: name, Elements: []*stages.Element{e}}, false, emit)
			return
		}
		b = &bucket{size: size}
		f.open[name] = b
		f.order = append(f.order, name)
	}
	b.elements = append(b.elements, e)
	f.engine.Schedule.Add(name, &e.Row)
	f.buffered++
	switch {
	case len(b.elements) >= b.size:
		f.flush(name, emit)
	case f.buffered > maxBuffered:
		f.flush(f.order[0], emit)
	}
}

// mostSettled bounds a batch of finished elements with small videos. One program decodes the whole batch.
const mostSettled = 8

// addSettled adds a finished element that some steps only measure. It emits the element at once, because its file is read later; only
// elements with small videos are grouped.
func (f *Buckets) addSettled(name schemas.Bucket, e *stages.Element, emit func(*stages.Batch)) {
	if e.Settled.Video == nil || int64(e.Row.Height*e.Row.Width)*int64(e.Row.NumFrames)*3 > video.TogetherBytes {
		f.emit(&stages.Batch{Bucket: name, Elements: []*stages.Element{e}}, false, emit)
		return
	}
	if f.settled != nil && f.settled.Bucket != name {
		f.flushSettled(emit)
	}
	if f.settled == nil {
		f.settled = &stages.Batch{Bucket: name}
	}
	if f.settled.Elements = append(f.settled.Elements, e); len(f.settled.Elements) >= f.engine.Schedule.LookBatch(mostSettled) {
		f.flushSettled(emit)
	}
}

func (f *Buckets) flushSettled(emit func(*stages.Batch)) {
	if b := f.settled; b != nil {
		f.settled = nil
		f.emit(b, false, emit)
	}
}

// Close emits all buffered elements, unless the engine was asked to stop: then their rows stay undone.
func (f *Buckets) Close(emit func(*stages.Batch)) {
	f.engine.Schedule.CloseInput()
	if !f.engine.Schedule.Stopping() {
		f.flushSettled(emit)
	}
	for len(f.order) > 0 && !f.engine.Schedule.Stopping() {
		f.flush(f.order[0], emit)
	}
	f.suspected(emit)
}

// Err returns the error of marking rows before they start, or nil.
func (f *Buckets) Err() error { return f.err }

// flush emits the elements of a bucket and removes the bucket.
func (f *Buckets) flush(name schemas.Bucket, emit func(*stages.Batch)) {
	b := f.open[name]
	delete(f.open, name)
	i := slices.Index(f.order, name)
	f.order = slices.Delete(f.order, i, i+1)
	f.buffered -= len(b.elements)
	f.engine.Schedule.Dispatch(name, &b.elements[0].Row, len(b.elements))
	f.emit(&stages.Batch{Bucket: name, Elements: b.elements}, false, emit)
}
