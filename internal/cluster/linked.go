package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"latentbeam/kernels"
)

// linked is the transport of a rank whose device is linked with the devices of all other ranks. Parts move over the link.
// The connections carry frame heads, with which the ranks check that all start the same exchange before the first
// byte moves. They also tell the ranks that the group has ended, even while the
// devices exchange parts.
type linked struct {
	*mesh
	kept  *kept
	node  *Node
	world []int    // the link's number of each rank
	boxes []*inbox // by rank; nil at this rank
}

// inbox holds the heads that a peer has sent.
type inbox struct {
	heads chan *frame
	life  context.Context // canceled when the connection ends, unless the peer has said goodbye
	lose  context.CancelCauseFunc
	left  error // reason why heads is closed
}

// newLinked returns the linked transport of m's rank.
func newLinked(m *mesh, k *kept, n *Node) *linked {
	l := &linked{mesh: m, kept: k, node: n, world: numbers(m.size), boxes: make([]*inbox, m.size)}
	for i, p := range m.peers {
		if p != nil {
			box := &inbox{heads: make(chan *frame, 1)}
			box.life, box.lose = context.WithCancelCause(context.Background())
			l.boxes[i] = box
			go l.listen(p, i, box)
		}
	}
	return l
}

// listen receives a peer's frames until the connection ends.
func (l *linked) listen(p *peer, from int, box *inbox) {
	defer close(box.heads)
	for {
		f, err := p.next()
		switch {
		case err != nil:
			box.left = connectionLost(from, err)
			box.lose(box.left)
			return
		case f.kind == byeFrame:
			box.left = fmt.Errorf("rank %d has left", from)
			return
		case f.kind == headFrame:
			select {
			case box.heads <- f:
			case <-l.over.Done():
				box.left = context.Cause(l.over)
				return
			}
		default:
			if box.left = fmt.Errorf("rank %d sends a frame of kind %d over TCP", from, f.kind); f.kind == abortFrame {
				box.left = abortError(from, f)
			}
			l.Abort(box.left)
			return
		}
	}
}

// Sub returns the transport of a subgroup, which uses the same link.
func (l *linked) Sub(ranks []int) (kernels.Transport, error) {
	m, err := l.mesh.Sub(ranks)
	if err != nil {
		return nil, err
	}
	sub := &linked{mesh: m.(*mesh), kept: l.kept, node: l.node}
	for _, r := range ranks {
		sub.world, sub.boxes = append(sub.world, l.world[r]), append(sub.boxes, l.boxes[r])
	}
	return sub, nil
}

// Exchange implements kernels.Transport.
func (l *linked) Exchange(ctx context.Context, be kernels.Backend, tag kernels.Tag,
	send, recv []kernels.Part) error {
	if err := l.stopped(); err != nil {
		return err
	}
	within, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	defer context.AfterFunc(l.over, func() { leave(context.Cause(l.over)) })()
	defer context.AfterFunc(ctx, func() { l.halt(ctx, l.expireWrites) })()
	err := be.Wait() // the parts are computed, and peers learn of an error before they rely on this rank
	if err == nil {
		err = l.sort(send, recv)
	}
	if err == nil {
		err = l.agree(within, tag)
	}
	if err == nil {
		err = l.move(ctx, within, leave, send, recv)
	}
	if err == nil {
		err = be.Wait()
	}
	if err != nil {
		return l.stop(fmt.Errorf("rank %d, %v: %w", l.rank, tag, err))
	}
	return nil
}

// agree sends the head of this rank's next exchange to all peers and compares it with theirs. If two ranks start different
// exchanges, agree returns an error and nothing moves.
func (l *linked) agree(ctx context.Context, tag kernels.Tag) error {
	var unsent error
	for _, p := range l.peers {
		if p != nil {
			unsent = errors.Join(unsent, p.write(headFrame, l.groupState.rank, tag, nil))
		}
	}
	var silent []int
	for i, box := range l.boxes {
		if box == nil {
			continue
		}
		select {
		case f, ok := <-box.heads:
			if !ok {
				return box.left
			}
			if _, err := l.peers[i].check(f, l.world[i], l.rank, tag); err != nil {
				return err
			}
		case <-ctx.Done():
			silent = append(silent, i)
		}
	}
	if len(silent) > 0 {
		return fmt.Errorf("ranks %v have not come: %w", silent, context.Cause(ctx))
	}
	return unsent
}

// move exchanges the parts over the link. It stops when within is canceled, which happens when ctx ends, the group ends, or the
// connection to a peer is lost; leave cancels within. After a failure of the link itself, or a timeout, the node avoids links for
// a while.
func (l *linked) move(ctx, within context.Context, leave context.CancelCauseFunc, send, recv []kernels.Part) error {
	for _, box := range l.boxes {
		if box != nil {
			defer context.AfterFunc(box.life, func() { leave(context.Cause(box.life)) })()
		}
	}
	err := l.kept.link.Exchange(within, l.outer(send), l.outer(recv))
	if err == nil {
		return nil
	}
	select {
	case <-within.Done():
	case <-time.After(abortTime): // give the loss of a peer time to arrive here
	}
	if within.Err() == nil || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = &linkError{err}
	} else {
		err = context.Cause(within)
	}
	l.recordFailure(err)
	return err
}

// recordFailure records an error of the link once for each rank. The error may come from this rank or from a peer.
func (l *linked) recordFailure(err error) {
	var failed *linkError
	if errors.As(err, &failed) && !l.kept.noted.Swap(true) {
		l.node.links.startAvoiding(fmt.Sprintf("an exchange has failed: %v", err))
	}
}

// linkError is a failure of the link itself.
type linkError struct{ error }

func (e *linkError) Unwrap() error { return e.error }

// outer replaces the ranks of parts by the link's numbers, which differ in a subgroup.
func (l *linked) outer(parts []kernels.Part) []kernels.Part {
	out := make([]kernels.Part, len(parts))
	for i, p := range parts {
		out[i] = kernels.Part{Peer: l.world[p.Peer], View: p.View}
	}
	return out
}

// expireWrites makes running writes fail, except in a group that has ended; see expire.
func (l *linked) expireWrites() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause == nil {
		l.writeBy(past)
	}
}

// writeBy sets the deadline of writes to peers.
func (l *linked) writeBy(t time.Time) {
	for _, p := range l.peers {
		if p != nil {
			p.SetWriteDeadline(t)
		}
	}
}

// Close says goodbye to the other ranks. A link that has not failed is retained for the next group.
func (l *linked) Close() error {
	if cause := l.stopped(); cause != nil {
		l.recordFailure(cause) // perhaps from an exchange without this rank
		l.kept.link.Close()
	} else {
		l.node.links.release(l.kept)
		l.writeBy(time.Now().Add(abortTime)) // a peer that misses the goodbye notices the end by itself
		f := frame{kind: byeFrame, from: uint32(l.groupState.rank)}
		for _, p := range l.peers {
			if p != nil && !p.deliver(&f) {
				p.writing.Lock()
				_, _ = p.Write(f.encode())
				p.writing.Unlock()
			}
		}
	}
	return l.mesh.Close()
}

var _ io.Closer = (*linked)(nil)
