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

// peer is the connection to one other rank, and the host memory that passes through it.
type peer struct {
	net.Conn
	writing  sync.Mutex
	torn     bool // a frame was not written to its end
	out, in  []byte
	sent     []kernels.Tensor // of the exchange under way
	expected []kernels.Tensor
}

// hangUp tells the peer why, after what is being sent to it, and closes the connection.
func (p *peer) hangUp(rank int, cause error) {
	if f := farewell(rank, cause); !errors.Is(cause, net.ErrClosed) && !p.deliver(f) {
		p.SetWriteDeadline(time.Now().Add(abortTime)) // what cannot be told will be found out
		p.writing.Lock()
		if !p.torn {
			p.Write(append(f.encode(), f.cause...))
		} else if c, ok := p.Conn.(*tls.Conn); ok {
			c.NetConn().Close() // the end of encryption cannot be told either: it would be taken for a forgery
		}
		p.writing.Unlock()
	}
	p.Close()
}

// farewell is the frame that says why a rank ends the group.
func farewell(rank int, cause error) *frame {
	text := cause.Error()
	text = text[:min(len(text), maxCause)]
	return &frame{kind: abortFrame, from: uint32(rank), layout: kindOf(cause), length: uint64(len(text)), cause: text}
}

// room returns b with n bytes.
func room(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n)
	}
	return b[:n]
}

// write sends a frame that tells of the parts of one exchange, and the parts with it where there is data.
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

// read receives the parts of one exchange from rank from, and refuses everything else.
func (p *peer) read(from, rank int, tag kernels.Tag) error {
	f, err := p.next()
	if err != nil {
		return connectionLost(from, err)
	}
	switch f.kind {
	case abortFrame:
		return gaveUp(from, f)
	case partsFrame:
	default:
		return fmt.Errorf("rank %d sends frames of kind %d, as over a link that there is none of", from, f.kind)
	}
	size, err := p.check(f, from, rank, tag)
	if err != nil {
		return err
	}
	p.in = room(p.in, size)
	if _, err := io.ReadFull(p, p.in); err != nil {
		if f := p.left(err); f != nil && f.kind == abortFrame {
			return gaveUp(from, f)
		}
		return connectionLost(from, err)
	}
	return nil
}

// gaveUp is why a peer has ended the group.
func gaveUp(from int, f *frame) error {
	err := fmt.Errorf("rank %d gave up: %s", from, f.cause)
	switch f.layout {
	case notFinite:
		err = fault.NotFinite(err)
	case linkFailed:
		err = &linkError{err}
	}
	return err
}

// kindOf is what an abort frame says of its cause.
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

// check compares a peer's announcement with the expected one, and returns the expected bytes.
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

// connectionLost is the error of a connection that ended.
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

// unload brings what was received to the device.
func (p *peer) unload(be kernels.Backend) {
	at := 0
	for _, t := range p.expected {
		values := make([]float32, t.Len())
		t.DType.Decode(values, p.in[at:])
		be.Upload(t, values)
		at += len(values) * t.DType.Size()
	}
}
