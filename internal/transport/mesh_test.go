package transport

import (
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	"latentbeam/kernels"
)

// TestTheEndIsTold: a wait that ends just when the peers are told why the group has ended does not cut that short.
func TestTheEndIsTold(t *testing.T) {
	for name, waited := range map[string]func(m *mesh){
		"exchange": func(m *mesh) { m.expire() },
		"heads":    func(m *mesh) { (&linked{mesh: m}).hush() },
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
