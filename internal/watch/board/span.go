package board

import "time"

// SpanKind is the kind of a Span.
type SpanKind string

// Kinds of spans.
const (
	Wait     SpanKind = "wait"     // a batch waits for devices
	Work     SpanKind = "work"     // a batch is on devices
	Step     SpanKind = "step"     // a sampling step of a batch on devices
	Exchange SpanKind = "exchange" // a device exchanges tensors with other devices of its set
	Publish  SpanKind = "publish"  // files and records of rows are written
	Row      SpanKind = "row"      // a row was settled
)

// Span is an activity that has ended.
type Span struct {
	Kind    SpanKind
	Name    string // name of a step or an exchange
	Stage   string
	Shape   string
	Rows    []string // ids of the first rows
	Count   int      // number of rows
	Devices []string
	Memory  []int64 // peak bytes of tensors on each of Devices; nil: not known
	Begin   time.Time
	End     time.Time
	Bytes   int64  // bytes that an exchange sent
	Error   string // why it failed; "": it succeeded
	Failure string // "class/stage" of a failed row
}

// Seconds returns the duration of the span in seconds.
func (s Span) Seconds() float64 { return s.End.Sub(s.Begin).Seconds() }

// Sink receives spans when they end. Record is called from many goroutines.
type Sink struct {
	Record  func(Span)
	Details bool // the sink also receives steps and exchanges, of which there are many
}
