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
	// spinFor is how long a link is asked without a pause whether an exchange is done, and lookEvery how often
	// after that: most take less than a millisecond, and a pause is no shorter than some fifty microseconds.
	spinFor   = 200 * time.Microsecond
	lookEvery = 50 * time.Microsecond
	// callTime is how long a call may take that does not wait; NCCL is aborted under one that takes longer.
	callTime = 2 * time.Second
	// leaveTime is how long the end of a link may take; after that its thread is left to itself.
	leaveTime = 10 * time.Second
)

// LinkKind names NCCL with its version: those of different versions do not understand each other.
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

// link is a rank's end of an NCCL communicator. Its calls are made on the engine's thread, and none of them waits. A
// deadline holds even where the thread is held up by something else that waits for the device, such as memory that is
// given back: the communicator is aborted from a thread of its own, and the device comes to its end.
type link struct {
	be   *Backend
	comm nccl.Comm
	mu   sync.Mutex // held by a call under way
	gone atomic.Bool
}

var errGone = errors.New("the link was given up")

// Link makes a communicator of b's device and those of the other ranks.
func (b *Backend) Link(ctx context.Context, id []byte, rank, size int) (kernels.Link, error) {
	l := &link{be: b}
	err := b.eng.do(func() (err error) { // not given up half-way: there would be nothing to abort
		l.comm, err = nccl.Init(id, rank, size)
		return err
	})
	if err == nil {
		err = l.settle(ctx)
	}
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("link %s: %w", b.Device(), err)
	}
	return l, nil
}

// call makes a call of the communicator on the engine's thread, or gives up waiting for its turn when ctx ends: then
// the link has to be closed, and the call is not made any more.
func (l *link) call(ctx context.Context, f func(c nccl.Comm) (bool, error)) (ok bool, err error) {
	type answer struct {
		ok  bool
		err error
	}
	answers := make(chan answer, 1)
	go func() {
		var a answer
		a.err = l.be.eng.do(func() (err error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.gone.Load() {
				return errGone
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

// begin makes a call that only begins something.
func (l *link) begin(ctx context.Context, f func(c nccl.Comm) error) error {
	_, err := l.call(ctx, func(c nccl.Comm) (bool, error) { return true, f(c) })
	return err
}

// settle waits until what was begun is done.
func (l *link) settle(ctx context.Context) error {
	return l.until(ctx, func(c nccl.Comm) (bool, error) { return c.State() })
}

// until asks again and again, on the engine's thread, whether something is done.
func (l *link) until(ctx context.Context, done func(c nccl.Comm) (bool, error)) error {
	for began := time.Now(); ; {
		ok, err := l.call(ctx, done)
		if err != nil || ok {
			return err
		}
		if time.Since(began) > spinFor {
			time.Sleep(lookEvery)
		}
	}
}

// Exchange implements kernels.Link: one ncclSend and one ncclRecv for each peer, in one group. What a peer gets or
// sends in several parts, or with gaps, passes through one dense piece.
func (l *link) Exchange(ctx context.Context, send, recv []kernels.Part) error {
	err := l.exchange(ctx, send, recv)
	if err != nil {
		l.Close() // before anybody reuses what may be on its way
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

// transfer enqueues the pieces behind what the stream has to do, and waits for the stream.
func (l *link) transfer(ctx context.Context, pieces []nccl.Transfer) error {
	b := l.be
	if p := b.late.Load(); p != nil {
		return *p
	}
	err := l.begin(ctx, func(c nccl.Comm) error { return c.Exchange(pieces, unsafe.Pointer(b.stream.C())) })
	if err == nil {
		err = l.settle(ctx)
	}
	if err != nil {
		return err
	}
	return l.until(ctx, func(c nccl.Comm) (bool, error) {
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

// notReady is what a query answers while there is work.
const notReady = 600

func isNotReady(err error) bool {
	var answer *driver.Error
	return errors.As(err, &answer) && answer.Code == notReady
}

// Close implements kernels.Link. It comes back after leaveTime at the latest.
func (l *link) Close() {
	if l.gone.Swap(true) || !l.comm.Opened() {
		return
	}
	left := make(chan struct{})
	go func() {
		defer close(left)
		runtime.LockOSThread() // and never given back: NCCL sets the thread's device
		l.quiet()
		_ = l.comm.Abort() // what it answers matters to nobody any more
	}()
	select {
	case <-left:
	case <-time.After(leaveTime):
	}
}

// quiet waits until no call is under way; none begins any more.
func (l *link) quiet() {
	for began := time.Now(); time.Since(began) < callTime; time.Sleep(time.Millisecond) {
		if l.mu.TryLock() {
			l.mu.Unlock()
			return
		}
	}
}
