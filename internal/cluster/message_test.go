package cluster

import (
	"bytes"
	"encoding/binary"
	"net"
	"strings"
	"testing"
)

// reading is a connection that delivers the bytes of r and then ends.
type reading struct {
	net.Conn
	r *bytes.Reader
}

func (r reading) Read(p []byte) (int, error) { return r.r.Read(p) }

// receive decodes the message of these bytes.
func receive(b []byte) (head map[string]any, body []byte, err error) {
	body, err = (&Conn{Conn: reading{r: bytes.NewReader(b)}}).Receive(&head)
	return head, body, err
}

// message returns the bytes of a message, with the lengths given, which may be wrong.
func message(head, body string, headLen uint32, bodyLen uint64) []byte {
	b := binary.BigEndian.AppendUint32(nil, headLen)
	b = binary.BigEndian.AppendUint64(b, bodyLen)
	return append(append(b, head...), body...)
}

// TestReceiveIsBounded: lengths beyond the limits and messages that end early are errors.
func TestReceiveIsBounded(t *testing.T) {
	head, body, err := receive(message(`{"a":1}`, "body", 7, 4))
	if err != nil || string(body) != "body" || head["a"] != 1.0 {
		t.Errorf("a good message: got %v %q, %v", head, body, err)
	}
	for want, b := range map[string][]byte{ // want: part of the error
		"the most is":            message("", "", maxHead+1, 0),
		"2147483648":             message("", "", 0, 1<<60),
		"unexpected EOF":         message(`{}`, "bod", 2, 4),
		"EOF":                    nil,
		"invalid character":      message("x}", "", 2, 0),
		"unexpected end of JSON": message("", "x", 0, 1),
	} {
		if _, _, err := receive(b); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("message %.40q: got error %v, want %q", b, err, want)
		}
	}
}

// FuzzReceive: whatever bytes come, Receive does not panic, and it returns no body that is longer than the bytes.
func FuzzReceive(f *testing.F) {
	f.Add(message(`{"a":1}`, "body", 7, 4))
	f.Add(message(`{}`, "", 2, 1<<30))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, body, err := receive(b); err == nil && len(body) > len(b) {
			t.Errorf("got a body of %d bytes from %d bytes", len(body), len(b))
		}
	})
}
