package cluster

import (
	"net"
	"sync/atomic"
)

// localConn is one end of a connection between two ranks of one process. A rank that hangs up does not wait for the
// other: it stores its last frame for the other to read later.
type localConn struct {
	net.Conn
	last, peerLast *atomic.Pointer[frame] // last frame of this end and of the other; nil inside: none
}

// pipe returns both ends of a connection between ranks of this process.
func pipe() (a, b net.Conn) {
	x, y := net.Pipe()
	var ofA, ofB atomic.Pointer[frame]
	return &localConn{x, &ofA, &ofB}, &localConn{y, &ofB, &ofA}
}

// next reads the head of the next frame, with the cause if it ends the group. After all sent frames it returns the stored
// last frame of a rank of this process.
func (p *peer) next() (*frame, error) {
	f, err := readFrame(p)
	if err == nil {
		return f, nil
	}
	if last := p.lastFrame(err); last != nil {
		return last, nil
	}
	return nil, err
}

// lastFrame returns the stored last frame of a rank of this process, after the connection has ended with err; nil: none.
func (p *peer) lastFrame(err error) *frame {
	if in, ok := p.Conn.(*localConn); ok && !isTimeout(err) {
		return in.peerLast.Load()
	}
	return nil
}

// deliver stores the last frame for a rank of this process. It reports false for a rank of another process.
func (p *peer) deliver(f *frame) bool {
	in, ok := p.Conn.(*localConn)
	if ok {
		in.last.CompareAndSwap(nil, f)
	}
	return ok
}
