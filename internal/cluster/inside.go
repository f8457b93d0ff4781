package cluster

import (
	"net"
	"sync/atomic"
)

// inside is the end of a connection between two ranks of one process. A rank that hangs up does not wait for the other to
// listen: its last frame lies there for when the other looks.
type inside struct {
	net.Conn
	said, heard *atomic.Pointer[frame] // of this end, of the other; nil: nothing
}

// pipe returns the ends of such a connection.
func pipe() (a, b net.Conn) {
	x, y := net.Pipe()
	var ofA, ofB atomic.Pointer[frame]
	return &inside{x, &ofA, &ofB}, &inside{y, &ofB, &ofA}
}

// next reads the head of a frame, of one that ends the group with the cause. What a rank of this process has left behind
// comes after what it has sent.
func (p *peer) next() (*frame, error) {
	f, err := readFrame(p)
	if err == nil {
		return f, nil
	}
	if left := p.left(err); left != nil {
		return left, nil
	}
	return nil, err
}

// left is the last frame of a rank of this process on a connection that has ended with err; nil: there is none.
func (p *peer) left(err error) *frame {
	if in, ok := p.Conn.(*inside); ok && !isTimeout(err) {
		return in.heard.Load()
	}
	return nil
}

// deliver leaves the last frame for a rank of this process, and reports whether it is one.
func (p *peer) deliver(f *frame) bool {
	in, ok := p.Conn.(*inside)
	if ok {
		in.said.CompareAndSwap(nil, f)
	}
	return ok
}
