//go:build cuda && linux

package cuda

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"latentbeam/kernels"
	"latentbeam/kernels/cuda/driver"
	"latentbeam/kernels/cuda/nccl"
)

const (
	// spinTime is how long a link polls without a pause whether an exchange is done, and pollInterval the pause after that. Most
	// exchanges take less than a millisecond, and a pause takes at least about fifty microseconds.
	spinTime     = 200 * time.Microsecond
	pollInterval = 50 * time.Microsecond
	// callTime is the time limit for a call that does not wait; if it takes longer, NCCL is aborted.
	callTime = 2 * time.Second
	// closeTime is the time limit for closing a link; after that its thread is abandoned.
	closeTime = 10 * time.Second
)

// LinkKind names NCCL with its version: different versions cannot communicate.
func (b *Backend) LinkKind() (string, error) {
	l, err := nccl.Open()
	return "NCCL " + l.Version, err
}

// NewLink returns an ncclUniqueId.
func (b *Backend) NewLink() ([]byte, error) {
	if _, err := nccl.Open(); err != nil {
		return nil, err
	}
	return nccl.NewID()
}

// link is a rank's end of an NCCL communicator. Its calls run on the engine's thread, and none of them waits. A deadline also
// holds if something else blocks the thread, such as freeing memory, which waits for the device: another thread then aborts the
// communicator, and the device is lost.
type link struct {
	be     *Backend
	comm   nccl.Comm
	mu     sync.Mutex // held during a call
	closed atomic.Bool
}

var errClosed = errors.New("the link is closed")

// Link makes a communicator of b's device and the devices of the other ranks.
func (b *Backend) Link(ctx context.Context, id []byte, rank, size int) (kernels.Link, error) {
	l := &link{be: b}
	err := b.eng.runAndWait(func() (err error) { // this call is not interrupted: an incomplete communicator cannot be aborted
		l.comm, err = nccl.Init(id, rank, size)
		return err
	})
	if err == nil {
		err = l.waitForCall(ctx)
	}
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("link %s: %w", b.Device(), err)
	}
	return l, nil
}

// call makes a call of the communicator on the engine's thread. If ctx ends before the thread is free, the call is never made,
// and the link must be closed.
func (l *link) call(ctx context.Context, f func(c nccl.Comm) (bool, error)) (ok bool, err error) {
	type answer struct {
		ok  bool
		err error
	}
	answers := make(chan answer, 1)
	go func() {
		var a answer
		a.err = l.be.eng.runAndWait(func() (err error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.closed.Load() {
				return errClosed
			}
			a.ok, err = f(l.comm)
			return err
		})
		answers <- a
	}()
	select {
	case a := <-answers:
		return a.ok, a.err
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// startCall makes a call that only starts an operation.
func (l *link) startCall(ctx context.Context, f func(c nccl.Comm) error) error {
	_, err := l.call(ctx, func(c nccl.Comm) (bool, error) { return true, f(c) })
	return err
}

// waitForCall waits until the started operation is done.
func (l *link) waitForCall(ctx context.Context) error {
	return l.poll(ctx, func(c nccl.Comm) (bool, error) { return c.State() })
}

// poll polls, on the engine's thread, until done returns true.
func (l *link) poll(ctx context.Context, done func(c nccl.Comm) (bool, error)) error {
	for began := time.Now(); ; {
		ok, err := l.call(ctx, done)
		if err != nil || ok {
			return err
		}
		if time.Since(began) > spinTime {
			time.Sleep(pollInterval)
		}
	}
}

// Exchange implements kernels.Link: one ncclSend and one ncclRecv for each peer, in one group. If the data for or from a peer
// has several parts, or gaps, it passes through one dense buffer.
func (l *link) Exchange(ctx context.Context, send, recv []kernels.Part) error {
	err := l.exchange(ctx, send, recv)
	if err != nil {
		l.Close() // before the memory of unfinished transfers is reused
		err = fmt.Errorf("link %s: %w", l.be.Device(), err)
	}
	return err
}

func (l *link) exchange(ctx context.Context, send, recv []kernels.Part) error {
	b := l.be
	m := b.arena.mark()
	defer b.arena.reset(m)
	out, err := b.bundles("send", send)
	if err != nil {
		return err
	}
	in, err := b.bundles("receive", recv)
	if err != nil {
		return err
	}
	var pieces []nccl.Transfer
	for _, o := range out {
		pieces = append(pieces, nccl.Transfer{Address: uintptr(o.at), Bytes: o.bytes, Peer: o.peer})
		o.pack(b)
	}
	for _, i := range in {
		pieces = append(pieces, nccl.Transfer{Address: uintptr(i.at), Bytes: i.bytes, Peer: i.peer, Receive: true})
	}
	if b.err != nil {
		return b.err
	}
	if len(pieces) > 0 {
		b.flush()
		if err := l.transfer(ctx, pieces); err != nil {
			return err
		}
	}
	for _, i := range in {
		i.unpack(b)
	}
	return b.err
}

// transfer enqueues the pieces after the stream's earlier work, and waits for the stream.
func (l *link) transfer(ctx context.Context, pieces []nccl.Transfer) error {
	b := l.be
	if p := b.callError.Load(); p != nil {
		return *p
	}
	err := l.startCall(ctx, func(c nccl.Comm) error { return c.Exchange(pieces, unsafe.Pointer(b.stream.C())) })
	if err == nil {
		err = l.waitForCall(ctx)
	}
	if err != nil {
		return err
	}
	return l.poll(ctx, func(c nccl.Comm) (bool, error) {
		switch err := driver.Check("cuStreamQuery", b.stream.Query()); {
		case err == nil:
			return true, nil
		case !isNotReady(err):
			return false, err
		}
		_, err := c.State()
		return false, err
	})
}

// notReady is the result of a query while work is unfinished.
const notReady = 600

func isNotReady(err error) bool {
	var answer *driver.Error
	return errors.As(err, &answer) && answer.Code == notReady
}

// Close implements kernels.Link. It returns after closeTime at the latest.
func (l *link) Close() {
	if l.closed.Swap(true) || !l.comm.Opened() {
		return
	}
	left := make(chan struct{})
	go func() {
		defer close(left)
		runtime.LockOSThread() // never unlocked: NCCL sets the thread's device
		l.waitUntilIdle()
		_ = l.comm.Abort() // nothing needs its result any more
	}()
	select {
	case <-left:
	case <-time.After(closeTime):
	}
}

// waitUntilIdle waits until the current call has ended; no further call starts.
func (l *link) waitUntilIdle() {
	for began := time.Now(); time.Since(began) < callTime; time.Sleep(time.Millisecond) {
		if l.mu.TryLock() {
			l.mu.Unlock()
			return
		}
	}
}
