package board

import "time"

// SpanKind is what a Span shows.
type SpanKind string

// Kinds of spans.
const (
	Wait     SpanKind = "wait"     // a batch waits for devices
	Work     SpanKind = "work"     // a batch is on devices
	Step     SpanKind = "step"     // a sampling step of such a batch
	Exchange SpanKind = "exchange" // a device exchanges parts with the others of its set
	Publish  SpanKind = "publish"  // files and records of rows are written
	Row      SpanKind = "row"      // a row reached its end
)

// Span is something that has ended.
type Span struct {
	Kind    SpanKind
	Name    string // of a step or an exchange
	Stage   string
	Shape   string
	Rows    []string // ids of the first rows
	Count   int      // rows
	Devices []string
	Memory  []int64 // bytes of tensors that each of Devices held at its fullest; nil: not known
	Begin   time.Time
	End     time.Time
	Bytes   int64  // that an exchange has sent
	Error   string // why it failed, "" where it went well
	Failure string // class and stage of a row that failed
}

// Seconds is how long the span took.
func (s Span) Seconds() float64 { return s.End.Sub(s.Begin).Seconds() }

// Sink takes spans as they end. Take is called from many goroutines.
type Sink struct {
	Take  func(Span)
	Small bool // the sink also wants steps and exchanges, which are many
}
