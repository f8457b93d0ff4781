//go:build cuda && linux

package cuda

import (
	"time"

	"gorgonia.org/cu"

	"latentbeam/kernels/cuda/driver"
)

// span is a stretch of the stream whose time is asked for.
type span struct {
	from, to *cu.Event
	follows  bool // from is to of the span before
	report   func(time.Duration)
}

// Time marks where the stream is now, and end where it is then. What lies between goes to report in the next
// Wait or Download. Where nothing was enqueued since the last span it begins at the end of that one, for every event
// costs the host a call and the device a pause.
func (b *Backend) Time(report func(time.Duration)) (end func()) {
	from := b.passed
	follows := from != nil
	if !follows {
		from = b.event()
		b.mark(from)
	}
	return func() {
		to := b.event()
		b.mark(to)
		b.passed = to
		b.spans = append(b.spans, span{from: from, to: to, follows: follows, report: report})
	}
}

// event returns an event that is not in use; it is made when it is recorded the first time.
func (b *Backend) event() *cu.Event {
	if n := len(b.events); n > 0 {
		e := b.events[n-1]
		b.events = b.events[:n-1]
		return e
	}
	return new(cu.Event)
}

// mark records e on the stream.
func (b *Backend) mark(e *cu.Event) {
	if b.err != nil {
		return
	}
	b.push(command{op: "time", event: e})
}

// record records e, which it makes the first time, on the engine's thread.
func record(e *cu.Event, stream cu.Stream) (err error) {
	if *e == (cu.Event{}) {
		if *e, err = cu.MakeEvent(cu.DefaultEvent); err != nil {
			return driver.Check("cuEventCreate", err)
		}
	}
	return driver.Check("cuEventRecord", e.Record(stream))
}

// settle reports the spans that have ended: all of them, when the stream was waited for. After an error there
// are no times.
func (b *Backend) settle() {
	if len(b.spans) == 0 {
		return
	}
	spans := b.spans
	b.spans, b.passed = nil, nil
	if b.err != nil {
		return
	}
	from, to := make([]cu.Event, len(spans)), make([]cu.Event, len(spans))
	took := make([]time.Duration, len(spans))
	err := b.eng.do(func() error {
		for i, s := range spans {
			from[i], to[i] = *s.from, *s.to
		}
		return driver.Elapsed(took, from, to)
	})
	for i, s := range spans {
		if !s.follows {
			b.events = append(b.events, s.from)
		}
		b.events = append(b.events, s.to)
		if err == nil {
			s.report(took[i])
		}
	}
}
