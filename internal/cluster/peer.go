package cluster

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"latentbeam/kernels"
	"latentbeam/schemas/fault"
)

// peer is the connection to one other rank, with its buffers in host memory.
type peer struct {
	net.Conn
	writing  sync.Mutex
	torn     bool // a frame was written incompletely
	out, in  []byte
	sent     []kernels.Tensor // of the running exchange
	expected []kernels.Tensor
}

// hangUp waits for a running write, sends the peer the reason, and closes the connection.
func (p *peer) hangUp(rank int, cause error) {
	if f := newAbort(rank, cause); !errors.Is(cause, net.ErrClosed) && !p.deliver(f) {
		p.SetWriteDeadline(time.Now().Add(abortTime)) // if the reason cannot be sent, the peer notices the end by itself
		p.writing.Lock()
		if !p.torn {
			p.Write(append(f.encode(), f.cause...))
		} else if c, ok := p.Conn.(*tls.Conn); ok {
			c.NetConn().Close() // a TLS close after an incomplete frame would look like a forgery
		}
		p.writing.Unlock()
	}
	p.Close()
}

// newAbort returns the frame with the reason why a rank ends the group.
func newAbort(rank int, cause error) *frame {
	text := cause.Error()
	text = text[:min(len(text), maxCause)]
	return &frame{kind: abortFrame, from: uint32(rank), layout: kindOf(cause), length: uint64(len(text)), cause: text}
}

// resize returns b with length n, and allocates if necessary.
func resize(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n)
	}
	return b[:n]
}

// write sends a frame that announces the parts of one exchange. data holds the parts; nil: they move over a link.
func (p *peer) write(kind byte, rank int, tag kernels.Tag, data []byte) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	layout, size := layoutOf(p.sent)
	f := frame{kind: kind, tag: tag, from: uint32(rank), layout: layout, length: uint64(size)}
	_, err := p.Write(f.encode())
	if err == nil && len(data) > 0 {
		_, err = p.Write(data)
	}
	p.torn = err != nil
	return err
}

// read receives the parts of one exchange from rank from. Any other frame is an error.
func (p *peer) read(from, rank int, tag kernels.Tag) error {
	f, err := p.next()
	if err != nil {
		return connectionLost(from, err)
	}
	switch f.kind {
	case abortFrame:
		return abortError(from, f)
	case partsFrame:
	default:
		return fmt.Errorf("rank %d sends frames of kind %d, as over a link that there is none of", from, f.kind)
	}
	size, err := p.check(f, from, rank, tag)
	if err != nil {
		return err
	}
	p.in = resize(p.in, size)
	if _, err := io.ReadFull(p, p.in); err != nil {
		if f := p.lastFrame(err); f != nil && f.kind == abortFrame {
			return abortError(from, f)
		}
		return connectionLost(from, err)
	}
	return nil
}

// reason returns why peer from has ended the group, or err if the peer does not say it soon. A write to the peer failed with err.
func (p *peer) reason(from int, err error) error {
	p.SetReadDeadline(time.Now().Add(abortTime))
	if f, failed := p.next(); failed == nil && f.kind == abortFrame {
		return abortError(from, f)
	}
	return err
}

// abortError returns the error for a peer's abort frame.
func abortError(from int, f *frame) error {
	err := fmt.Errorf("rank %d gave up: %s", from, f.cause)
	switch f.layout {
	case notFinite:
		err = fault.NotFinite(err)
	case linkFailed:
		err = &linkError{err}
	}
	return err
}

// kindOf returns the kind of a cause for an abort frame.
func kindOf(cause error) uint64 {
	var link *linkError
	switch {
	case fault.IsNotFinite(cause):
		return notFinite
	case errors.As(cause, &link):
		return linkFailed
	}
	return otherCause
}

// check compares a peer's frame with the expected exchange, and returns the expected size in bytes.
func (p *peer) check(f *frame, from, rank int, tag kernels.Tag) (size int, err error) {
	if f.tag != tag {
		return 0, mismatch(rank, tag, int(f.from), f.tag)
	}
	layout, size := layoutOf(p.expected)
	if f.from != uint32(from) || f.layout != layout || f.length != uint64(size) {
		return 0, fmt.Errorf("rank %d sends %d bytes of other parts than the expected %d bytes",
			f.from, f.length, size)
	}
	return size, nil
}

// connectionLost returns the error for a connection that ended.
func connectionLost(rank int, err error) error {
	if isTimeout(err) {
		return err
	}
	return fmt.Errorf("rank %d is gone: %w", rank, err)
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// unload copies the received parts to the device.
func (p *peer) unload(be kernels.Backend) {
	at := 0
	for _, t := range p.expected {
		values := make([]float32, t.Len())
		t.DType.Decode(values, p.in[at:])
		be.Upload(t, values)
		at += len(values) * t.DType.Size()
	}
}
