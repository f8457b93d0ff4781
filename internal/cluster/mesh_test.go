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

// TestTheEndIsTold: the peers are told why the group has ended, even if the context ends at the same moment.
func TestTheEndIsTold(t *testing.T) {
	for name, waited := range map[string]func(m *mesh){
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
				synctest.Wait() // nobody reads yet
				waited(near)
				err := far.peers[0].read(0, 1, kernels.Tag{})
				if err == nil || !strings.Contains(err.Error(), "rank 0 gave up: a device is lost") {
					t.Errorf("error %v", err)
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
		synctest.Wait() // nobody reads yet
		enough := errors.New("enough")
		cancel(enough)
		<-near.over.Done()
		peer := far.peers[0]
		peer.expected = []kernels.Tensor{x}
		if err := peer.read(0, 1, tag); err != nil {
			t.Errorf("what was sent: %v", err)
		}
		if err := peer.read(0, 1, tag); err == nil || !strings.Contains(err.Error(), "rank 0 gave up: enough") {
			t.Errorf("then: %v", err)
		}
		if err := <-ended; !errors.Is(err, enough) {
			t.Errorf("the rank itself: %v", err)
		}
	})
}

// TestTornFrame: a connection with a frame that was only sent in part is closed. The peer does not take it for a forgery.
func TestTornFrame(t *testing.T) {
	ends := loopback(t, 2, 1)
	defer closeAll(ends)
	near, far := ends[0].(*withNode), ends[1].(*withNode)
	p := near.peers()[1]
	p.SetWriteDeadline(past)
	if err := p.write(headFrame, 0, kernels.Tag{Op: "work"}, nil); err == nil {
		t.Fatal("the frame was sent")
	}
	near.Abort(errors.New("a device is lost"))
	err := far.peers()[0].read(0, 1, kernels.Tag{Op: "work"})
	if err == nil || !strings.Contains(err.Error(), "rank 0 is gone") || strings.Contains(err.Error(), "MAC") {
		t.Errorf("error %v", err)
	}
}
