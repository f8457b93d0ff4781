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
	report   func(time.Duration)
	took     time.Duration
}

// Time marks where the stream is now, and end where it is then. What lies between goes to report in the next
// Wait or Download.
func (b *Backend) Time(report func(time.Duration)) (end func()) {
	from, to := b.event(), b.event()
	b.mark(from)
	return func() {
		b.mark(to)
		b.spans = append(b.spans, span{from: from, to: to, report: report})
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
	b.push("time", func() error { return record(e, b.stream) })
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
	b.spans = nil
	if b.err != nil {
		return
	}
	err := b.eng.do(func() error {
		for i, s := range spans {
			ms, err := s.from.Elapsed(*s.to)
			if err != nil {
				return driver.Check("cuEventElapsedTime", err)
			}
			spans[i].took = time.Duration(ms * float64(time.Millisecond))
		}
		return nil
	})
	for _, s := range spans {
		b.events = append(b.events, s.from, s.to)
		if err == nil {
			s.report(s.took)
		}
	}
}
