package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Node is one process among those that know a token. Processes call each other, and their ranks meet in
// groups. A node that does not listen calls only, so it can have no rank above one of another process.
type Node struct {
	token    Token
	listener net.Listener // nil: this node only calls
	calls    chan *Conn
	closed   chan struct{}
	working  sync.WaitGroup
	links    links

	mu       sync.Mutex
	meetings meetings
	open     map[net.Conn]bool // connections that nobody has taken yet
}

// hello is the first message on a connection: what it is for.
type hello struct {
	Call bool      `json:"call,omitempty"`
	Pair *rankPair `json:"seat,omitempty"`
}

// NewNode returns a node that does not listen.
func NewNode(token Token) *Node {
	return &Node{token: token, links: links{within: linkTime}, closed: make(chan struct{}), calls: make(chan *Conn),
		open: map[net.Conn]bool{}}
}

// Listen returns a node that listens at addr, host:port. What connects there must know the token.
func Listen(addr string, token Token) (*Node, error) {
	n := NewNode(token)
	cert, err := newCertificate()
	if err != nil {
		return nil, fmt.Errorf("listen at %s: %w", addr, err)
	}
	if n.listener, err = net.Listen("tcp", addr); err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	n.working.Go(func() { n.serve(cert) })
	return n, nil
}

// Addr returns where the node listens.
func (n *Node) Addr() string { return n.listener.Addr().String() }

// Close stops listening and hangs up on those that nobody has taken yet.
func (n *Node) Close() error {
	n.mu.Lock()
	select {
	case <-n.closed:
		n.mu.Unlock()
		return nil
	default:
	}
	close(n.closed)
	for c := range n.open {
		c.Close()
	}
	n.mu.Unlock()
	n.links.close()
	if n.listener != nil {
		n.listener.Close()
	}
	n.working.Wait()
	return nil
}

// serve takes connections until the node is closed.
func (n *Node) serve(cert tls.Certificate) {
	door := newDoor()
	for {
		raw, err := n.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // such as too many open files: the next one may succeed
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if t, ok := raw.(*net.TCPConn); ok {
			t.SetKeepAliveConfig(keepAlive)
		}
		g := door.enter(raw)
		n.working.Go(func() { n.receive(g, cert, func() { door.remove(g) }) })
	}
}

// receive takes one connection to where it is wanted; proved is called when it has shown that it knows the
// token, or failed to.
func (n *Node) receive(raw net.Conn, cert tls.Certificate, proved func()) {
	if !n.retain(raw) {
		proved()
		return
	}
	c, h, err := n.greet(raw, cert)
	proved()
	if err == nil {
		err = n.place(c, h)
	}
	n.release(raw)
	if err != nil {
		raw.Close()
	}
}

// retain notes a connection that Close has to end.
func (n *Node) retain(c net.Conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case <-n.closed:
		c.Close()
		return false
	default:
	}
	n.open[c] = true
	return true
}

func (n *Node) release(c net.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.open, c)
}

// greet lets a connection prove itself and say what it is for.
func (n *Node) greet(raw net.Conn, cert tls.Certificate) (net.Conn, hello, error) {
	var h hello
	c, err := accept(raw, n.token, cert)
	if err != nil {
		return nil, h, err
	}
	err = shake(raw, func() error {
		_, err := (&Conn{Conn: c}).Receive(&h)
		return err
	})
	return c, h, err
}

// place hands a connection to whom it is for.
func (n *Node) place(c net.Conn, h hello) error {
	if h.Call {
		select {
		case n.calls <- &Conn{Conn: c}:
			return nil
		case <-time.After(waitingTime):
			return errors.New("nobody takes the call")
		case <-n.closed:
			return net.ErrClosed
		}
	}
	if h.Pair == nil {
		return errors.New("a connection for nothing")
	}
	m, err := n.meetings.at(*h.Pair)
	if err != nil {
		return err
	}
	select {
	case m.conn <- c:
		return nil
	case <-m.over:
		return errors.New("the group has ended here")
	case <-time.After(waitingTime):
		n.meetings.withdraw(*h.Pair)
		return errors.New("the group was not joined here")
	case <-n.closed:
		return net.ErrClosed
	}
}

// Over says that this process will not join the group, or not again: those who wait for it here are told at once.
func (n *Node) Over(t Table) { n.meetings.close(t.Group) }

// Accept waits for a call of another process.
func (n *Node) Accept(ctx context.Context) (*Conn, error) {
	select {
	case c := <-n.calls:
		return c, nil
	case <-n.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Call calls the process that listens at addr. It has to take what is sent, and to answer or send heartbeats, or the
// connection fails.
func (n *Node) Call(ctx context.Context, addr string) (*Conn, error) {
	c, err := n.connect(ctx, addr, dialTime, hello{Call: true})
	if err == nil {
		c.silence = silence
	}
	return c, err
}

// connect connects within a time, see dial, and says what for.
func (n *Node) connect(ctx context.Context, addr string, within time.Duration, h hello) (*Conn, error) {
	c, err := dial(ctx, addr, within, n.token)
	if err != nil {
		return nil, err
	}
	conn := &Conn{Conn: c}
	if err := conn.Send(h, nil); err != nil {
		c.Close()
		return nil, fmt.Errorf("connect to worker %s: %w", addr, err)
	}
	return conn, nil
}
