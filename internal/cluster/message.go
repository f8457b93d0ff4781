package cluster

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// Conn is a connection between two processes that know the same token. It carries messages: a head, which is
// JSON, and a body of bytes. A message without either is a heartbeat.
type Conn struct {
	net.Conn
	silence time.Duration // for which the other end may say and take nothing; 0: for ever
	sending sync.Mutex
}

// Send sends one message.
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
	c.sending.Lock()
	defer c.sending.Unlock()
	if _, err := c.Write(append(b, text...)); err != nil || len(body) == 0 {
		return err // a pipe waits for somebody who reads the nothing
	}
	_, err = c.Write(body)
	return err
}

// Receive waits for a message that is no heartbeat, decodes its head and returns its body.
func (c *Conn) Receive(head any) ([]byte, error) {
	var b [headerSize]byte
	for b == [headerSize]byte{} {
		if _, err := io.ReadFull(c, b[:]); err != nil {
			return nil, err
		}
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
	var body bytes.Buffer // it grows as bytes come: a length that is a lie costs its sender the bytes
	if _, err := io.CopyN(&body, c, int64(rest)); errors.Is(err, io.EOF) {
		return nil, io.ErrUnexpectedEOF
	} else if err != nil {
		return nil, err
	}
	return body.Bytes(), nil
}

// CloseWrite says that nothing more is sent. The other end reads the end of what was sent, and may still send.
func (c *Conn) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}

// headerSize is that of the lengths before a message: 4 bytes for the head, 8 for the body.
const headerSize = 12

// Beat sends heartbeats until stop is called. By them the caller tells a busy process from a stopped one.
func (c *Conn) Beat() (stop func()) {
	end := make(chan struct{})
	go func() {
		tick := time.NewTicker(beatEvery)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
			}
			c.sending.Lock()
			_, err := c.Write(make([]byte, headerSize))
			c.sending.Unlock()
			if err != nil {
				return // who answers sees that too
			}
		}
	}()
	return sync.OnceFunc(func() { close(end) })
}

// Read implements net.Conn. It fails when the other end has been silent for too long.
func (c *Conn) Read(p []byte) (int, error) {
	if c.silence > 0 {
		if err := c.SetReadDeadline(time.Now().Add(c.silence)); err != nil {
			return 0, err
		}
	}
	n, err := c.Conn.Read(p)
	return n, c.silent(err)
}

// Write implements net.Conn. It fails when the other end has taken nothing for too long.
func (c *Conn) Write(p []byte) (n int, err error) {
	for err == nil && n < len(p) {
		end := len(p)
		if c.silence > 0 {
			end = min(end, n+writeSize)
			if err := c.SetWriteDeadline(time.Now().Add(c.silence)); err != nil {
				return n, err
			}
		}
		var written int
		written, err = c.Conn.Write(p[n:end])
		n += written
	}
	return n, c.silent(err)
}

// silent says what a deadline means.
func (c *Conn) silent(err error) error {
	if c.silence > 0 && errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("silent for %v: it is stopped, or the network between is down", c.silence)
	}
	return err
}
