// Package trace writes what a run did as a timeline: a file of Chrome trace events, which Perfetto and chrome://tracing
// open, or OpenTelemetry spans for a collector.
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
	Ph   string         `json:"ph"`            // X: complete, b and e: begin and end of what may overlap, M: metadata
	TS   float64        `json:"ts"`            // microseconds since the trace began
	Dur  *float64       `json:"dur,omitempty"` // microseconds
	PID  int            `json:"pid"`
	TID  int            `json:"tid"`
	ID   string         `json:"id,omitempty"`
	Args map[string]any `json:"args,omitempty"`
}

// Processes of the trace, which a viewer shows as groups of tracks.
const (
	devices = 1 // a track for each device
	stages  = 2 // a track for each stage, with the batches that wait for devices
	output  = 3 // what is written
)

// Chrome writes a file of trace events. It is one JSON array that is valid after Close; viewers open it before, too.
type Chrome struct {
	mu     sync.Mutex
	file   *os.File
	w      *bufio.Writer
	began  time.Time
	tracks map[string]int // by process and name
	next   int
	err    error
}

// NewChrome begins the file.
func NewChrome(name string, began time.Time) (*Chrome, error) {
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	c := &Chrome{file: f, w: bufio.NewWriterSize(f, 1<<16), began: began, tracks: map[string]int{}}
	c.text("[\n")
	for pid, name := range map[int]string{devices: "devices", stages: "waiting", output: "output"} {
		c.write(event{Name: "process_name", Ph: "M", PID: pid, Args: map[string]any{"name": name}})
		c.write(event{Name: "process_sort_index", Ph: "M", PID: pid, Args: map[string]any{"sort_index": pid}})
	}
	return c, c.err
}

func (c *Chrome) text(s string) {
	if _, err := c.w.WriteString(s); err != nil && c.err == nil {
		c.err = err
	}
}

// write writes an event; mu is held, but while the file is made.
func (c *Chrome) write(e event) {
	data, err := json.Marshal(e)
	if err != nil && c.err == nil {
		c.err = err
	}
	c.text(string(data) + ",\n")
}

// track returns the number of a track, which it names when it is new; mu is held.
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

// Sink takes spans, steps and exchanges included.
func (c *Chrome) Sink() board.Sink { return board.Sink{Take: c.record, Small: true} }

func (c *Chrome) record(s board.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.file == nil {
		return
	}
	at := func(t time.Time) float64 { return float64(t.Sub(c.began).Nanoseconds()) / 1000 }
	long := max(0, at(s.End)-at(s.Begin))
	e := event{Name: s.Stage, Cat: string(s.Kind), Ph: "X", TS: at(s.Begin), Dur: &long, Args: args(s)}
	switch s.Kind {
	case board.Row:
		return
	case board.Wait: // several overlap
		e.PID, e.TID, e.Dur = stages, c.track(stages, s.Stage), nil
		c.next++
		e.Ph, e.ID = "b", fmt.Sprintf("0x%x", c.next)
		c.write(e)
		c.write(event{Name: e.Name, Cat: e.Cat, Ph: "e", TS: at(s.End), PID: e.PID, TID: e.TID, ID: e.ID})
		return
	case board.Publish: // each bundle has a publisher: they may overlap
		c.next++
		e.PID, e.TID, e.Dur = output, c.track(output, "publish"), nil
		e.Ph, e.ID = "b", fmt.Sprintf("0x%x", c.next)
		c.write(e)
		c.write(event{Name: e.Name, Cat: e.Cat, Ph: "e", TS: at(s.End), PID: e.PID, TID: e.TID, ID: e.ID})
		return
	case board.Step: // one rank tells them, and exchanges of others may cross their ends
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

// args are what a viewer shows of a span.
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

// Close ends the file.
func (c *Chrome) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.file == nil {
		return c.err
	}
	// The last event closes the array without a comma behind it.
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
