package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"latentbeam/kernels"
)

// linked is the end of a rank whose device is linked with all the others': what they exchange goes over the link.
// The connections carry what belongs to it: heads, by which the ranks see that all do the same before the first
// byte moves, and the end of the group, also while the devices are at it.
type linked struct {
	*mesh
	kept  *kept
	node  *Node
	world []int    // the ranks as the link numbers them
	boxes []*inbox // by rank; nil at this rank
}

// inbox is what a peer has said.
type inbox struct {
	heads chan *frame
	life  context.Context // ends when nothing more comes, and the cause is not that the peer has left in peace
	lose  context.CancelCauseFunc
	left  error // why heads is closed
}

// newLinked returns the end of m's rank with a link.
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

// listen takes what a peer says until the connection ends.
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
				box.left = gaveUp(from, f)
			}
			l.Abort(box.left)
			return
		}
	}
}

// Sub returns the end of a group that uses the same link.
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
	defer context.AfterFunc(ctx, func() { l.halt(ctx, l.hush) })()
	err := be.Wait() // what is sent is there, and the others learn of an error before they count on this rank
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

// agree tells the peers what this rank is about to exchange and hears it of them. Nothing moves where two ranks do
// not mean the same.
func (l *linked) agree(ctx context.Context, tag kernels.Tag) error {
	var unsent error
	for _, p := range l.peers {
		if p != nil {
			unsent = errors.Join(unsent, p.write(headFrame, l.ending.rank, tag, nil))
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

// move lets the parts pass over the link, until within ends: with ctx, with the group or with a peer. A link that
// fails on its own account, or is not done in time, is not made again soon.
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
	case <-time.After(abortTime): // a peer that is gone may be noticed here last
	}
	if within.Err() == nil || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = &linkError{err}
	} else {
		err = context.Cause(within)
	}
	l.spoiled(err)
	return err
}

// spoiled notes, once for a rank, an error of the link: here, or at a peer that was the first to say so.
func (l *linked) spoiled(err error) {
	var failed *linkError
	if errors.As(err, &failed) && !l.kept.noted.Swap(true) {
		l.node.links.failed(fmt.Sprintf("an exchange has failed: %v", err))
	}
}

// linkError is the failure of a link on its own account.
type linkError struct{ error }

func (e *linkError) Unwrap() error { return e.error }

// outer returns parts with the ranks as the link numbers them.
func (l *linked) outer(parts []kernels.Part) []kernels.Part {
	out := make([]kernels.Part, len(parts))
	for i, p := range parts {
		out[i] = kernels.Part{Peer: l.world[p.Peer], View: p.View}
	}
	return out
}

// hush makes a write under way fail, except in a group that has ended; see expire.
func (l *linked) hush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause == nil {
		l.writeBy(past)
	}
}

// writeBy sets when writing to peers fails.
func (l *linked) writeBy(t time.Time) {
	for _, p := range l.peers {
		if p != nil {
			p.SetWriteDeadline(t)
		}
	}
}

// Close takes leave of the others. A link that has served its group well is kept for the next one.
func (l *linked) Close() error {
	if cause := l.stopped(); cause != nil {
		l.spoiled(cause) // maybe of an exchange that this rank was not in
		l.kept.link.Close()
	} else {
		l.node.links.release(l.kept)
		l.writeBy(time.Now().Add(abortTime)) // who does not hear it finds out
		f := frame{kind: byeFrame, from: uint32(l.ending.rank)}
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
