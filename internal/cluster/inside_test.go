package cluster

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/schemas/fault"
)

// neighbours returns the meshes of two ranks of one process, connected as Join does it.
func neighbours(t *testing.T) (first, second *mesh) {
	t.Helper()
	j := &joining{mine: []int{0, 1}, conns: map[rankPair]net.Conn{}}
	if err := j.pair(t.Context(), 0, 1); err != nil {
		t.Fatal(err)
	}
	return newMesh(0, []net.Conn{nil, j.conns[rankPair{"", 0, 1}]}), newMesh(1, []net.Conn{j.conns[rankPair{"", 1, 0}], nil})
}

// TestBusyNeighbour: rank 0 gives up before rank 1, in the same process, reads from it, or in the middle of a frame. The error of rank 1 is
// the reason of rank 0, not that its connection has ended.
func TestBusyNeighbour(t *testing.T) {
	tag := kernels.Tag{Op: "work"}
	be := cpu.New(1)
	x := filled(be, kernels.F32, 0, 4)
	layout, size := layoutOf([]kernels.Tensor{x})
	head := (&frame{kind: partsFrame, tag: tag, layout: layout, length: uint64(size)}).encode()
	for name, sent := range map[string][]byte{
		"between frames": nil, "half a head": head[:20], "half a body": append(head, make([]byte, size/2)...),
	} {
		t.Run(name, func(t *testing.T) {
			near, far := neighbours(t)
			ended := make(chan error, 1)
			exchange := func() { ended <- far.Exchange(t.Context(), be, tag, nil, []kernels.Part{{Peer: 0, View: x}}) }
			if sent != nil {
				go exchange()
				near.peers[1].Write(sent)
			}
			if near.Abort(fault.NotFinite(errors.New("step 3 of 4"))); sent == nil {
				exchange()
			}
			if err := <-ended; !fault.IsNotFinite(err) || !strings.Contains(err.Error(), "rank 0 gave up: step 3 of 4") {
				t.Errorf("got error %v, want rank 0's reason, not finite", err)
			}
		})
	}
}

// TestBusyLinkedNeighbour is TestBusyNeighbour for ranks whose devices are linked. A rank that has left after its work does not count as lost.
func TestBusyLinkedNeighbour(t *testing.T) {
	for name, c := range map[string]struct {
		leave func(near *linked)
		want  string
	}{
		"gave up": {func(near *linked) { near.Abort(errors.New("a device is lost")) }, "rank 0 gave up: a device is lost"},
		"left":    {func(near *linked) { near.Close() }, "rank 0 has left"},
	} {
		t.Run(name, func(t *testing.T) {
			near, far := neighbours(t)
			node := NewNode(token)
			defer node.Close()
			k := &kept{link: &wire{cable: newCable(), tr: Shared(1)[0]}}
			c.leave(&linked{mesh: near, kept: k, node: node})
			box := &inbox{heads: make(chan *frame, 1)}
			box.life, box.lose = context.WithCancelCause(context.Background())
			l := &linked{mesh: far, kept: k, node: node, world: numbers(2), boxes: []*inbox{box, nil}}
			l.listen(far.peers[0], 0, box)
			if box.life.Err() != nil {
				t.Errorf("rank 0 counts as lost: %v", context.Cause(box.life))
			}
			err := l.Exchange(t.Context(), cpu.New(1), kernels.Tag{Op: "work"}, nil, nil)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want %q", err, c.want)
			}
		})
	}
}
