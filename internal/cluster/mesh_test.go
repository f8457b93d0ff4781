package cluster

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
)

// TestTheEndIsTold: a rank that gives up tells its peers why, even if the context ends at the same moment, which ends its other writes.
func TestTheEndIsTold(t *testing.T) {
	for name, expire := range map[string]func(m *mesh){
		"exchange": func(m *mesh) { m.expire() },
		"heads":    func(m *mesh) { (&linked{mesh: m}).expireWrites() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := net.Pipe()
				near, far := newMesh(0, []net.Conn{nil, a}), newMesh(1, []net.Conn{b, nil})
				ended := make(chan struct{})
				go func() {
					near.Abort(errors.New("a device is lost"))
					close(ended)
				}()
				synctest.Wait() // until Abort waits for a reader
				expire(near)
				err := far.peers[0].read(0, 1, kernels.Tag{})
				if err == nil || !strings.Contains(err.Error(), "rank 0 gave up: a device is lost") {
					t.Errorf("got error %v, want rank 0's reason", err)
				}
				<-ended
			})
		})
	}
}

// TestCancelledFrameIsWhole: a rank that is cancelled while it sends a frame sends the whole frame, and then the reason.
func TestCancelledFrameIsWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		near, far := newMesh(0, []net.Conn{nil, a}), newMesh(1, []net.Conn{b, nil})
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error)
		be := cpu.New(1)
		x := filled(be, kernels.F32, 0, 4)
		tag := kernels.Tag{Op: "work"}
		go func() { ended <- near.Exchange(ctx, be, tag, []kernels.Part{{Peer: 1, View: x}}, nil) }()
		synctest.Wait() // until Exchange waits for a reader
		enough := errors.New("enough")
		cancel(enough)
		<-near.over.Done()
		peer := far.peers[0]
		peer.expected = []kernels.Tensor{x}
		if err := peer.read(0, 1, tag); err != nil {
			t.Errorf("the frame that was begun: %v", err)
		}
		if err := peer.read(0, 1, tag); err == nil || !strings.Contains(err.Error(), "rank 0 gave up: enough") {
			t.Errorf("after the frame: got %v, want rank 0's reason", err)
		}
		if err := <-ended; !errors.Is(err, enough) {
			t.Errorf("the exchange that was cancelled: got %v, want %v", err, enough)
		}
	})
}

// TestTornFrame: a rank that could send only a part of a frame closes the connection. The error of its peer says that the rank is gone, not
// that TLS has found a wrong MAC.
func TestTornFrame(t *testing.T) {
	ends := loopback(t, 2, 1)
	defer closeAll(ends)
	near, far := ends[0].(*withNode), ends[1].(*withNode)
	p := near.peers()[1]
	p.SetWriteDeadline(past)
	if err := p.write(headFrame, 0, kernels.Tag{Op: "work"}, nil); err == nil {
		t.Fatal("the frame was sent although the deadline has passed")
	}
	near.Abort(errors.New("a device is lost"))
	err := far.peers()[0].read(0, 1, kernels.Tag{Op: "work"})
	if err == nil || !strings.Contains(err.Error(), "rank 0 is gone") || strings.Contains(err.Error(), "MAC") {
		t.Errorf("got error %v, want that rank 0 is gone", err)
	}
}
