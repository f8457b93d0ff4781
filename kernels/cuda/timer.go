//go:build cuda && linux

package cuda

import (
	"time"

	"gorgonia.org/cu"

	"latentbeam/kernels/cuda/driver"
)

// span is a part of the stream's work whose time is measured.
type span struct {
	from, to *cu.Event
	follows  bool // from is the end of the previous span
	report   func(time.Duration)
}

// Time marks the current position of the stream, and end marks the position at its call. The next Wait or Download calls report
// with the time between them. If nothing was enqueued since the last span ended, the new span starts at the end of the last one:
// that saves an event, which costs the host a call and the device a pause.
func (b *Backend) Time(report func(time.Duration)) (end func()) {
	from := b.doneEvent
	follows := from != nil
	if !follows {
		from = b.event()
		b.recordEvent(from)
	}
	return func() {
		to := b.event()
		b.recordEvent(to)
		b.doneEvent = to
		b.spans = append(b.spans, span{from: from, to: to, follows: follows, report: report})
	}
}

// event returns an unused event; it is made when it is first recorded.
func (b *Backend) event() *cu.Event {
	if n := len(b.events); n > 0 {
		e := b.events[n-1]
		b.events = b.events[:n-1]
		return e
	}
	return new(cu.Event)
}

// recordEvent records e on the stream.
func (b *Backend) recordEvent(e *cu.Event) {
	if b.err != nil {
		return
	}
	b.push(command{op: "time", event: e})
}

// record records e, on the engine's thread; the first time it makes the event.
func record(e *cu.Event, stream cu.Stream) (err error) {
	if *e == (cu.Event{}) {
		if *e, err = cu.MakeEvent(cu.DefaultEvent); err != nil {
			return driver.Check("cuEventCreate", err)
		}
	}
	return driver.Check("cuEventRecord", e.Record(stream))
}

// reportSpans reports the spans that have ended: all of them if the stream was waited for. After an error there are no times.
func (b *Backend) reportSpans() {
	if len(b.spans) == 0 {
		return
	}
	spans := b.spans
	b.spans, b.doneEvent = nil, nil
	if b.err != nil {
		return
	}
	from, to := make([]cu.Event, len(spans)), make([]cu.Event, len(spans))
	took := make([]time.Duration, len(spans))
	err := b.eng.runAndWait(func() error {
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
