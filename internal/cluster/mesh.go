package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"latentbeam/kernels"
)

// mesh is the transport of one rank, with a connection to every other rank.
type mesh struct {
	rank, size  int
	peers       []*peer // by rank; nil at this rank
	*groupState         // shared by a group and its subgroups
}

// groupState is the state of a rank's group and its subgroups.
type groupState struct {
	rank  int     // in the outermost group
	all   []*peer // of the outermost group
	mu    sync.Mutex
	cause error // reason why the group has ended; nil: it has not

	over   context.Context // canceled when the group ends
	finish context.CancelCauseFunc
}

// newMesh returns the transport of rank; conns holds a connection to every other rank.
func newMesh(rank int, conns []net.Conn) *mesh {
	m := &mesh{rank: rank, size: len(conns), peers: make([]*peer, len(conns))}
	for i, c := range conns {
		if i != rank {
			m.peers[i] = &peer{Conn: c}
		}
	}
	m.groupState = &groupState{rank: rank, all: m.peers}
	m.over, m.finish = context.WithCancelCause(context.Background())
	return m
}

// Sub returns the transport of a subgroup, which uses the same connections.
func (m *mesh) Sub(ranks []int) (kernels.Transport, error) {
	mine, err := subRank(m.rank, m.size, ranks)
	if err != nil {
		return nil, err
	}
	sub := &mesh{rank: mine, size: len(ranks), peers: make([]*peer, len(ranks)), groupState: m.groupState}
	for i, r := range ranks {
		sub.peers[i] = m.peers[r]
	}
	return sub, nil
}

func (m *mesh) Rank() int { return m.rank }
func (m *mesh) Size() int { return m.size }

// Close closes the connections. After a successful run no exchange is running.
func (m *mesh) Close() error {
	m.Abort(net.ErrClosed)
	return nil
}

// Abort ends the group with its subgroups and the groups around it.
func (e *groupState) Abort(cause error) {
	e.mu.Lock()
	first := e.cause == nil
	if first {
		e.cause = cause
	}
	e.mu.Unlock()
	if !first {
		return
	}
	e.finish(cause)
	var all sync.WaitGroup
	for _, p := range e.all {
		if p != nil {
			all.Go(func() { p.hangUp(e.rank, cause) })
		}
	}
	all.Wait()
}

// stop ends the group and returns the first cause of its end.
func (m *mesh) stop(cause error) error {
	m.Abort(cause)
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cause
}

// stopped returns the reason why the group has ended; nil: it has not.
func (m *mesh) stopped() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cause
}

// outcome is the result of sending to a peer or of receiving from it.
type outcome struct {
	peer     int
	received bool
	err      error
}

// Exchange implements kernels.Transport.
func (m *mesh) Exchange(ctx context.Context, be kernels.Backend, tag kernels.Tag,
	send, recv []kernels.Part) error {
	if err := m.stopped(); err != nil {
		return err
	}
	if err := m.load(be, send, recv); err != nil {
		return m.stop(fmt.Errorf("rank %d, %v: %w", m.rank, tag, err))
	}
	stop := context.AfterFunc(ctx, func() { m.halt(ctx, m.expire) })
	defer stop()
	results := make(chan outcome, 2*m.size)
	for i, p := range m.peers {
		if p != nil {
			go func() { results <- outcome{i, false, p.write(partsFrame, m.rank, tag, p.out)} }()
			go func() { results <- outcome{i, true, p.read(i, m.rank, tag)} }()
		}
	}
	silent := map[int]bool{}
	var unsent error
	deaf := -1 // peer that did not receive
	for range 2 * (m.size - 1) {
		r := <-results
		switch {
		case r.err == nil && r.received:
			m.peers[r.peer].unload(be)
		case r.err != nil && isTimeout(r.err):
			silent[r.peer] = true
		case r.err != nil && !r.received:
			unsent, deaf = r.err, r.peer // reading from this peer gives a better reason
		case r.err != nil:
			m.Abort(fmt.Errorf("rank %d, %v: %w", m.rank, tag, r.err)) // wakes the other directions
		}
	}
	if err := m.stopped(); err != nil {
		return err
	}
	if len(silent) > 0 {
		return m.stop(fmt.Errorf("rank %d, %v: ranks %v have not come: %w", m.rank, tag,
			slices.Sorted(maps.Keys(silent)), context.Cause(ctx)))
	}
	if unsent != nil { // the peer has sent its parts and ended the group then
		unsent = m.peers[deaf].reason(deaf, unsent)
	}
	if err := errors.Join(unsent, be.Wait()); err != nil {
		return m.stop(fmt.Errorf("rank %d, %v: %w", m.rank, tag, err))
	}
	return nil
}

// past is a deadline that makes running reads and writes fail.
var past = time.Unix(1, 0)

// halt is called when ctx ends during an exchange. After a timeout it calls late, so that running transfers fail and the
// errors name the missing rank. After a cancellation it ends the group: running frames are completed, then the peers get
// the reason.
func (m *mesh) halt(ctx context.Context, late func()) {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		late()
		return
	}
	m.Abort(context.Cause(ctx))
}

// expire makes all running reads and writes fail. If the group has ended already, it leaves writes alone, because
// they tell the peers the reason and have their own deadline.
func (m *mesh) expire() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.peers {
		if p != nil {
			p.SetReadDeadline(past)
			if m.cause == nil {
				p.SetWriteDeadline(past)
			}
		}
	}
}

// sort sorts the parts by peer.
func (m *mesh) sort(send, recv []kernels.Part) error {
	for _, p := range m.peers {
		if p != nil {
			p.sent, p.expected = p.sent[:0], p.expected[:0]
		}
	}
	for i, list := range [][]kernels.Part{send, recv} {
		for _, part := range list {
			if part.Peer < 0 || part.Peer >= m.size || part.Peer == m.rank {
				return fmt.Errorf("there is no peer %d", part.Peer)
			}
			p := m.peers[part.Peer]
			if i == 0 {
				p.sent = append(p.sent, part.View)
			} else {
				p.expected = append(p.expected, part.View)
			}
		}
	}
	return nil
}

// load sorts the parts by peer and copies the parts to send to the host.
func (m *mesh) load(be kernels.Backend, send, recv []kernels.Part) error {
	if err := m.sort(send, recv); err != nil {
		return err
	}
	for _, p := range m.peers {
		if p == nil {
			continue
		}
		_, size := layoutOf(p.sent)
		p.out = resize(p.out, size)
		at := 0
		for _, t := range p.sent {
			values := make([]float32, t.Len())
			if err := be.Download(values, t); err != nil {
				return err
			}
			t.DType.Encode(p.out[at:], values)
			at += len(values) * t.DType.Size()
		}
	}
	return be.Wait()
}
