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

// Conn is a connection between two processes that know the same token. It carries messages: each has a head, which is
// JSON, and a body of bytes. A message without head and body is a heartbeat.
type Conn struct {
	net.Conn
	silence time.Duration // longest time without a byte from or to the other end; 0: no limit
	sending sync.Mutex
}

// Send sends one message.
func (c *Conn) Send(head any, body []byte) error {
	text, err := json.Marshal(head)
	if err != nil {
		return err
	}
	if len(text) > maxHead || len(body) > maxBody {
		return fmt.Errorf("send: the head has %d bytes and the body %d, the most is %d and %d",
			len(text), len(body), maxHead, maxBody)
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(len(text)))
	b = binary.BigEndian.AppendUint64(b, uint64(len(body)))
	c.sending.Lock()
	defer c.sending.Unlock()
	if _, err := c.Write(append(b, text...)); err != nil || len(body) == 0 {
		return err // a pipe would block on an empty write
	}
	_, err = c.Write(body)
	return err
}

// Receive waits for a message other than a heartbeat, decodes its head and returns its body.
func (c *Conn) Receive(head any) ([]byte, error) {
	var b [headerSize]byte
	for b == [headerSize]byte{} {
		if _, err := io.ReadFull(c, b[:]); err != nil {
			return nil, err
		}
	}
	size, rest := binary.BigEndian.Uint32(b[:]), binary.BigEndian.Uint64(b[4:])
	if size > maxHead || rest > maxBody {
		return nil, fmt.Errorf("receive: the head has %d bytes and the body %d, the most is %d and %d",
			size, rest, maxHead, maxBody)
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(c, text); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, head); err != nil {
		return nil, fmt.Errorf("receive: %w", err)
	}
	var body bytes.Buffer // grows with the received bytes, so that a wrong length allocates nothing
	if _, err := io.CopyN(&body, c, int64(rest)); errors.Is(err, io.EOF) {
		return nil, io.ErrUnexpectedEOF
	} else if err != nil {
		return nil, err
	}
	return body.Bytes(), nil
}

// CloseWrite closes the sending direction. The other end reads an end of file, and may still send.
func (c *Conn) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}

// headerSize is the size of the lengths before a message: 4 bytes for the head, 8 for the body.
const headerSize = 12

// Beat sends heartbeats until stop is called. They show the caller that a busy process is alive.
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
				return // the answer fails with the same error
			}
		}
	}()
	return sync.OnceFunc(func() { close(end) })
}

// Read implements net.Conn. It fails if the other end sends nothing for too long.
func (c *Conn) Read(p []byte) (int, error) {
	if c.silence > 0 {
		if err := c.SetReadDeadline(time.Now().Add(c.silence)); err != nil {
			return 0, err
		}
	}
	n, err := c.Conn.Read(p)
	return n, c.silenceError(err)
}

// Write implements net.Conn. It fails if the other end accepts nothing for too long.
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
	return n, c.silenceError(err)
}

// silenceError returns a clear error for an exceeded deadline, and any other error unchanged.
func (c *Conn) silenceError(err error) error {
	if c.silence > 0 && errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("silent for %v: the process there is stopped, or the network is down", c.silence)
	}
	return err
}
