package exec

import (
	"encoding/json"
	"fmt"
)

// protocolVersion is v of every request and of the program's hello.
const protocolVersion = 1

// Types of the messages. Those of requests are hello, batch and cancel.
const (
	typeHello     = "hello"
	typeBatch     = "batch"
	typeCancel    = "cancel"
	typeResult    = "result"
	typeError     = "error"
	typeDone      = "done"
	typeProgress  = "progress"
	typeLog       = "log"
	typeHeartbeat = "heartbeat"
)

// request is a line to the program.
type request struct {
	V       int      `json:"v"`
	Type    string   `json:"type"`
	Takes   string   `json:"takes,omitempty"` // of a hello
	Gives   string   `json:"gives,omitempty"`
	Batch   int      `json:"batch,omitempty"`   // number of a batch, from 1
	Devices []string `json:"devices,omitempty"` // UUIDs of GPUs
	Scratch string   `json:"scratch,omitempty"` // directory for the outputs of the batch
	Rows    []row    `json:"rows,omitempty"`
}

// row is what a program gets to know of an element.
type row struct {
	ID     string            `json:"id"`  // for messages: it is in no key
	Key    string            `json:"key"` // hex
	Seed   *int64            `json:"seed,omitempty"`
	Params map[string]any    `json:"params"`
	Inputs map[string]string `json:"inputs"` // kind -> path
}

// answer is a line of the program.
type answer struct {
	V         int               `json:"v"`
	Type      string            `json:"type"`
	Takes     string            `json:"takes"` // of a hello; "" leaves it to the job
	Gives     string            `json:"gives"`
	Heartbeat float64           `json:"heartbeat"` // of a hello: seconds between heartbeats; 0: the program sends none
	Batch     int               `json:"batch"`
	Key       string            `json:"key"`
	Outputs   map[string]string `json:"outputs"`  // kind -> path
	Readings  map[string]string `json:"readings"` // of a result
	Class     string            `json:"class"`    // of an error
	Message   string            `json:"message"`
	Level     string            `json:"level"` // of a log
	Step      int               `json:"step"`  // of a progress
	Of        int               `json:"of"`
}

// parseAnswer reads a line of the program.
func parseAnswer(line []byte) (a answer, err error) {
	if err := json.Unmarshal(line, &a); err != nil {
		return a, fmt.Errorf("a line on descriptor 4 is not a message: %.80q", line)
	}
	switch a.Type {
	case typeHello, typeResult, typeError, typeDone, typeProgress, typeLog, typeHeartbeat:
		return a, nil
	}
	return a, fmt.Errorf("a message has the unknown type %q", a.Type)
}
