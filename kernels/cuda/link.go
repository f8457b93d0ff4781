//go:build cuda && linux

package cuda

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"gorgonia.org/cu"

	"latentbeam/kernels"
	"latentbeam/kernels/cuda/driver"
	"latentbeam/kernels/cuda/nccl"
)

var _ kernels.Linker = (*Backend)(nil)

const (
	// spinFor is how long a link is asked without a pause whether an exchange is done, and lookEvery how often
	// after that: most take less than a millisecond, and a pause is no shorter than some fifty microseconds.
	spinFor   = 200 * time.Microsecond
	lookEvery = 50 * time.Microsecond
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

// link is a rank's end of an NCCL communicator. Its calls are made on the engine's thread, and none of them waits,
// so that others may go on using the device and a deadline holds.
type link struct {
	be   *Backend
	mu   sync.Mutex // of comm, which may be given up at any time
	comm nccl.Comm
	gone bool
}

var errGone = errors.New("the link was given up")

// Link makes a communicator of b's device and those of the other ranks.
func (b *Backend) Link(ctx context.Context, id []byte, rank, size int) (kernels.Link, error) {
	l := &link{be: b}
	err := b.eng.do(func() (err error) {
		l.comm, err = nccl.Init(id, rank, size)
		return err
	})
	if err == nil {
		err = l.settle(ctx)
	}
	if err != nil {
		l.Close(false)
		return nil, fmt.Errorf("link %s: %w", b.Device(), err)
	}
	return l, nil
}

// call makes a call of the communicator on the engine's thread.
func (l *link) call(f func(c nccl.Comm) error) error {
	return l.be.eng.do(func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.gone {
			return errGone
		}
		return f(l.comm)
	})
}

// settle waits until what was begun is done.
func (l *link) settle(ctx context.Context) error {
	return l.until(ctx, func(c nccl.Comm) (bool, error) { return c.State() })
}

// until asks again and again, on the engine's thread, whether something is done.
func (l *link) until(ctx context.Context, done func(c nccl.Comm) (bool, error)) error {
	for began := time.Now(); ; {
		var ok bool
		err := l.call(func(c nccl.Comm) (err error) {
			ok, err = done(c)
			return err
		})
		if err != nil || ok {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
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
		l.Close(false) // before anybody reuses what may be on its way
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
	var pieces []nccl.Piece
	for _, o := range out {
		pieces = append(pieces, nccl.Piece{Address: uintptr(o.at), Bytes: o.bytes, Peer: o.peer})
		o.pack(b)
	}
	for _, i := range in {
		pieces = append(pieces, nccl.Piece{Address: uintptr(i.at), Bytes: i.bytes, Peer: i.peer, Receive: true})
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
func (l *link) transfer(ctx context.Context, pieces []nccl.Piece) error {
	b := l.be
	if p := b.late.Load(); p != nil {
		return *p
	}
	err := l.call(func(c nccl.Comm) error { return c.Exchange(pieces, unsafe.Pointer(b.stream.C())) })
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
func (l *link) Close(well bool) {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	if well {
		err := l.call(func(c nccl.Comm) error { return c.Finalize() })
		well = err == nil && l.settle(ctx) == nil
	}
	l.mu.Lock()
	gone := l.gone || !l.comm.Opened()
	l.gone = true
	l.mu.Unlock()
	if gone {
		return
	}
	left := make(chan struct{})
	go func() {
		defer close(left)
		runtime.LockOSThread() // and never given back: NCCL sets the thread's device
		if well {
			_ = l.comm.Destroy() // what it answers matters to nobody any more
		} else {
			_ = l.comm.Abort()
		}
	}()
	select {
	case <-left:
	case <-ctx.Done():
	}
}

// bundle is what passes between this rank and one peer, in one direction.
type bundle struct {
	peer  int
	at    cu.DevicePtr
	bytes int
	views []*operand // the tensors
	dense []*operand // where they are in the bundle; nil: the bundle is the tensor itself
}

// bundles sorts parts by peer, without those that are empty.
func (b *Backend) bundles(op string, parts []kernels.Part) ([]*bundle, error) {
	var out []*bundle
	of := map[int]*bundle{}
	for _, p := range parts {
		o, ok := b.open(op, p.View)
		if !ok || !b.need(op, []string{"part"}, o) {
			return nil, b.err
		}
		if p.View.Len() == 0 {
			continue
		}
		if of[p.Peer] == nil {
			of[p.Peer] = &bundle{peer: p.Peer}
			out = append(out, of[p.Peer])
		}
		of[p.Peer].views = append(of[p.Peer].views, o[0])
	}
	for _, one := range out {
		if err := one.lay(b); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// lay gives a bundle its place. Both ends find the same length, for they know the same shapes.
func (p *bundle) lay(b *Backend) error {
	if v := p.views[0]; len(p.views) == 1 && v.Contiguous() {
		p.at, p.bytes = v.ptr, v.Len()*v.DType.Size()
		return nil
	}
	var offsets []int
	for _, v := range p.views {
		offsets = append(offsets, p.bytes)
		p.bytes += v.Len() * v.DType.Size()
		if len(p.views) > 1 {
			p.bytes = (p.bytes + unit - 1) / unit * unit
		}
	}
	var err error
	if p.at, err = b.arena.take(p.bytes); err != nil {
		return err
	}
	for i, v := range p.views {
		p.dense = append(p.dense, &operand{Tensor: kernels.NewTensor(v.DType, nil, v.Shape...),
			ptr: p.at + cu.DevicePtr(offsets[i])})
	}
	return nil
}

// pack brings the tensors to the bundle, unpack the bundle to the tensors.
func (p *bundle) pack(b *Backend) {
	for i, d := range p.dense {
		b.copyOf("send", d, p.views[i])
	}
}

func (p *bundle) unpack(b *Backend) {
	for i, d := range p.dense {
		b.copyOf("receive", p.views[i], d)
	}
}
