package transport

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
)

// Conn is a connection between two processes that know the same token. It carries messages: a head, which is
// JSON, and a body of bytes.
type Conn struct{ net.Conn }

// Send sends one message. It must not be called from two goroutines at once.
func (c *Conn) Send(head any, body []byte) error {
	text, err := json.Marshal(head)
	if err != nil {
		return err
	}
	if len(text) > maxHead || len(body) > maxBody {
		return fmt.Errorf("send: a message of %d and %d bytes, the most is %d and %d",
			len(text), len(body), maxHead, maxBody)
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(len(text)))
	b = binary.BigEndian.AppendUint64(b, uint64(len(body)))
	if _, err := c.Write(append(b, text...)); err != nil || len(body) == 0 {
		return err // a pipe waits for somebody who reads the nothing
	}
	_, err = c.Write(body)
	return err
}

// Receive waits for a message, decodes its head and returns its body.
func (c *Conn) Receive(head any) ([]byte, error) {
	var b [12]byte
	if _, err := io.ReadFull(c, b[:]); err != nil {
		return nil, err
	}
	size, rest := binary.BigEndian.Uint32(b[:]), binary.BigEndian.Uint64(b[4:])
	if size > maxHead || rest > maxBody {
		return nil, fmt.Errorf("receive: a message of %d and %d bytes, the most is %d and %d",
			size, rest, maxHead, maxBody)
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(c, text); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, head); err != nil {
		return nil, fmt.Errorf("receive: %w", err)
	}
	return io.ReadAll(exactly(c, int64(rest)))
}

// exactly reads n bytes of r, as they come: a length that is a lie costs its sender the bytes.
func exactly(r io.Reader, n int64) io.Reader { return &exact{io.LimitReader(r, n), n} }

type exact struct {
	r    io.Reader
	left int64
}

func (e *exact) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	e.left -= int64(n)
	if err == io.EOF && e.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}
