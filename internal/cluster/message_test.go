package cluster

import (
	"bytes"
	"encoding/binary"
	"net"
	"strings"
	"testing"
)

// reading is a connection on which some bytes come, and then the end.
type reading struct {
	net.Conn
	r *bytes.Reader
}

func (r reading) Read(p []byte) (int, error) { return r.r.Read(p) }

func received(b []byte) (head map[string]any, body []byte, err error) {
	body, err = (&Conn{Conn: reading{r: bytes.NewReader(b)}}).Receive(&head)
	return head, body, err
}

// message are the bytes of a message, with lengths as given.
func message(head, body string, headLen uint32, bodyLen uint64) []byte {
	b := binary.BigEndian.AppendUint32(nil, headLen)
	b = binary.BigEndian.AppendUint64(b, bodyLen)
	return append(append(b, head...), body...)
}

// TestReceiveIsBounded: lengths beyond the limits and messages that end early are errors.
func TestReceiveIsBounded(t *testing.T) {
	head, body, err := received(message(`{"a":1}`, "body", 7, 4))
	if err != nil || string(body) != "body" || head["a"] != 1.0 {
		t.Errorf("%v %q, %v", head, body, err)
	}
	for want, b := range map[string][]byte{
		"the most is":            message("", "", maxHead+1, 0),
		"2147483648":             message("", "", 0, 1<<60),
		"unexpected EOF":         message(`{}`, "bod", 2, 4),
		"EOF":                    nil,
		"invalid character":      message("x}", "", 2, 0),
		"unexpected end of JSON": message("", "x", 0, 1),
	} {
		if _, _, err := received(b); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v", want, err)
		}
	}
}

// FuzzReceive: no bytes make it panic or take more memory than they are worth.
func FuzzReceive(f *testing.F) {
	f.Add(message(`{"a":1}`, "body", 7, 4))
	f.Add(message(`{}`, "", 2, 1<<30))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, body, err := received(b); err == nil && len(body) > len(b) {
			t.Errorf("a body of %d bytes from %d", len(body), len(b))
		}
	})
}
