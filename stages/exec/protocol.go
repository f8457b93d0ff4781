package exec

import (
	"encoding/json"
	"errors"
	"fmt"
)

// protocolVersion is the field v of every request and of the program's hello.
const protocolVersion = 1

// Types of messages. Requests have the types hello, batch and cancel.
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

// request is a line that is sent to the program.
type request struct {
	V       int      `json:"v"`
	Type    string   `json:"type"`
	Takes   string   `json:"takes,omitempty"` // in a hello
	Gives   string   `json:"gives,omitempty"`
	Batch   int      `json:"batch,omitempty"`   // number of a batch, from 1
	Devices []string `json:"devices,omitempty"` // UUIDs of GPUs
	Scratch string   `json:"scratch,omitempty"` // directory for the outputs of the batch
	Rows    []row    `json:"rows,omitempty"`
}

// row describes an element for a program.
type row struct {
	ID     string            `json:"id"`  // for messages; not part of keys
	Key    string            `json:"key"` // hex
	Seed   *int64            `json:"seed,omitempty"`
	Params map[string]any    `json:"params"`
	Inputs map[string]string `json:"inputs"` // kind -> path
}

// answer is a line from the program.
type answer struct {
	V         int               `json:"v"`
	Type      string            `json:"type"`
	Takes     string            `json:"takes"` // in a hello; "": as the job says
	Gives     string            `json:"gives"`
	Heartbeat float64           `json:"heartbeat"` // in a hello: seconds between heartbeats; 0: the program sends none
	Batch     int               `json:"batch"`
	Key       string            `json:"key"`
	Outputs   map[string]string `json:"outputs"`  // kind -> path
	Readings  readings          `json:"readings"` // in a result
	Class     string            `json:"class"`    // in an error
	Message   string            `json:"message"`
	Level     string            `json:"level"` // in a log message
	Step      int               `json:"step"`  // in a progress message
	Of        int               `json:"of"`
}

// readings are texts by name. Numbers and booleans are stored as their JSON text.
type readings map[string]string

// UnmarshalJSON accepts texts, numbers and booleans.
func (r *readings) UnmarshalJSON(data []byte) error {
	var values map[string]json.RawMessage
	if err := json.Unmarshal(data, &values); err != nil {
		return errors.New("readings is no object of texts and numbers")
	}
	*r = readings{}
	for name, value := range values {
		text := string(value)
		switch text[0] {
		case '"':
			if err := json.Unmarshal(value, &text); err != nil {
				return err
			}
		case '{', '[', 'n':
			return fmt.Errorf("the reading %.40q is %.40q: a text or a number is wanted", name, value)
		}
		(*r)[name] = text
	}
	return nil
}

// parseAnswer parses a line from the program.
func parseAnswer(line []byte) (a answer, err error) {
	var mistyped *json.UnmarshalTypeError
	switch err := json.Unmarshal(line, &a); {
	case err == nil:
	case errors.As(err, &mistyped):
		return a, fmt.Errorf("a %s has %s of the type %s: %s is wanted", a.Type, mistyped.Field, mistyped.Value, mistyped.Type)
	case json.Valid(line):
		return a, err
	default:
		return a, fmt.Errorf("a line on descriptor 4 is not a message: %.80q", line)
	}
	switch a.Type {
	case typeHello, typeResult, typeError, typeDone, typeProgress, typeLog, typeHeartbeat:
		return a, nil
	}
	return a, fmt.Errorf("a message has the unknown type %q", a.Type)
}
