// Package trace writes a timeline of a run: as a file of Chrome trace events for Perfetto and chrome://tracing, or as
// OpenTelemetry spans for a collector.
package trace

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"latentbeam/internal/watch/board"
)

// event is a trace event: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
type event struct {
	Name string         `json:"name"`
	Cat  string         `json:"cat,omitempty"`
	Ph   string         `json:"ph"`            // X: complete event; b, e: begin and end of an event that may overlap others; M: metadata
	TS   float64        `json:"ts"`            // microseconds since the start of the trace
	Dur  *float64       `json:"dur,omitempty"` // microseconds
	PID  int            `json:"pid"`
	TID  int            `json:"tid"`
	ID   string         `json:"id,omitempty"`
	Args map[string]any `json:"args,omitempty"`
}

// Processes of the trace, which a viewer shows as groups of tracks.
const (
	devices = 1 // a track for each device
	stages  = 2 // a track for each stage, with batches that wait for devices
	output  = 3 // a track for publishing
)

// Chrome writes a file of trace events. The file is a JSON array that is complete after Close; viewers can also open it before.
type Chrome struct {
	mu     sync.Mutex
	file   *os.File
	w      *bufio.Writer
	start  time.Time
	tracks map[string]int // numbers of tracks by process and name
	next   int            // last id of an event that may overlap others
	err    error
}

// NewChrome creates the file. start is the time of the start of the trace.
func NewChrome(name string, start time.Time) (*Chrome, error) {
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	c := &Chrome{file: f, w: bufio.NewWriterSize(f, 1<<16), start: start, tracks: map[string]int{}}
	c.text("[\n")
	for pid, name := range map[int]string{devices: "devices", stages: "waiting", output: "output"} {
		c.write(event{Name: "process_name", Ph: "M", PID: pid, Args: map[string]any{"name": name}})
		c.write(event{Name: "process_sort_index", Ph: "M", PID: pid, Args: map[string]any{"sort_index": pid}})
	}
	return c, c.err
}

// text writes a text and records the first error.
func (c *Chrome) text(s string) {
	if _, err := c.w.WriteString(s); err != nil && c.err == nil {
		c.err = err
	}
}

// write writes an event. The caller holds c.mu, except in NewChrome.
func (c *Chrome) write(e event) {
	data, err := json.Marshal(e)
	if err != nil && c.err == nil {
		c.err = err
	}
	c.text(string(data) + ",\n")
}

// track returns the number of a track. It writes the name of a new track. The caller holds c.mu.
func (c *Chrome) track(pid int, name string) int {
	key := fmt.Sprint(pid, " ", name)
	if id, ok := c.tracks[key]; ok {
		return id
	}
	id := len(c.tracks) + 1
	c.tracks[key] = id
	c.write(event{Name: "thread_name", Ph: "M", PID: pid, TID: id, Args: map[string]any{"name": name}})
	return id
}

// Sink returns a sink that writes spans, including steps and exchanges.
func (c *Chrome) Sink() board.Sink { return board.Sink{Record: c.record, Details: true} }

// record writes a span.
func (c *Chrome) record(s board.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.file == nil {
		return
	}
	at := func(t time.Time) float64 { return float64(t.Sub(c.start).Nanoseconds()) / 1000 }
	long := max(0, at(s.End)-at(s.Begin))
	e := event{Name: s.Stage, Cat: string(s.Kind), Ph: "X", TS: at(s.Begin), Dur: &long, Args: args(s)}
	switch s.Kind {
	case board.Row:
		return
	case board.Wait: // waits may overlap
		e.PID, e.TID, e.Dur = stages, c.track(stages, s.Stage), nil
		c.next++
		e.Ph, e.ID = "b", fmt.Sprintf("0x%x", c.next)
		c.write(e)
		c.write(event{Name: e.Name, Cat: e.Cat, Ph: "e", TS: at(s.End), PID: e.PID, TID: e.TID, ID: e.ID})
		return
	case board.Publish: // publishers of different bundles may overlap
		c.next++
		e.PID, e.TID, e.Dur = output, c.track(output, "publish"), nil
		e.Ph, e.ID = "b", fmt.Sprintf("0x%x", c.next)
		c.write(e)
		c.write(event{Name: e.Name, Cat: e.Cat, Ph: "e", TS: at(s.End), PID: e.PID, TID: e.TID, ID: e.ID})
		return
	case board.Step: // steps have their own track, because exchanges of other ranks may overlap their ends
		e.Name, e.PID = s.Name, devices
		if len(s.Devices) > 0 {
			e.TID = c.track(devices, s.Devices[0]+" steps")
			c.write(e)
		}
		return
	case board.Exchange:
		e.Name = s.Name
	}
	e.PID = devices
	for _, d := range s.Devices {
		e.TID = c.track(devices, d)
		c.write(e)
	}
}

// args returns the details that a viewer shows of a span.
func args(s board.Span) map[string]any {
	a := map[string]any{"stage": s.Stage}
	if s.Count > 0 {
		a["rows"] = s.Count
		a["ids"] = strings.Join(s.Rows, ", ")
	}
	if s.Shape != "" {
		a["shape"] = s.Shape
	}
	if s.Kind == board.Exchange {
		a["bytes_sent"] = s.Bytes
	}
	if s.Error != "" {
		a["error"] = s.Error
	}
	return a
}

// Close completes and closes the file.
func (c *Chrome) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.file == nil {
		return c.err
	}
	// The last event has no comma after it, so that the array is valid JSON.
	c.text(`{"name":"process_labels","ph":"M","ts":0,"pid":1,"tid":0,"args":{"labels":"latentbeam"}}` + "\n]\n")
	if err := c.w.Flush(); err != nil && c.err == nil {
		c.err = err
	}
	if err := c.file.Close(); err != nil && c.err == nil {
		c.err = err
	}
	c.file = nil
	return c.err
}
