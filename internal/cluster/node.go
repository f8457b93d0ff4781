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

// Node is a process that knows a token. Nodes call each other, and their ranks form groups.
// A node that does not listen can only call, so its ranks must be lower than the ranks of other processes.
type Node struct {
	token    Token
	listener net.Listener // nil: this node only calls
	calls    chan *Conn
	closed   chan struct{}
	working  sync.WaitGroup
	links    links

	mu       sync.Mutex
	meetings meetings
	open     map[net.Conn]bool // connections that nobody has accepted yet
}

// hello is the first message on a connection. It says what the connection is for.
type hello struct {
	Call bool      `json:"call,omitempty"`
	Pair *rankPair `json:"seat,omitempty"` // the two ranks that the connection joins; nil: it is a call
}

// NewNode returns a node that does not listen.
func NewNode(token Token) *Node {
	return &Node{token: token, links: links{within: linkTime}, closed: make(chan struct{}), calls: make(chan *Conn),
		open: map[net.Conn]bool{}}
}

// Listen returns a node that listens at addr, host:port. Processes that connect must know the token.
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

// Addr returns the address at which the node listens.
func (n *Node) Addr() string { return n.listener.Addr().String() }

// Close stops listening and closes connections that nobody has accepted.
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

// serve accepts connections until the node is closed.
func (n *Node) serve(cert tls.Certificate) {
	lobby := newLobby()
	for {
		raw, err := n.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // such as too many open files; the next accept may succeed
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if t, ok := raw.(*net.TCPConn); ok {
			t.SetKeepAliveConfig(keepAlive)
		}
		g := lobby.enter(raw)
		n.working.Go(func() { n.receive(g, cert, func() { lobby.remove(g) }) })
	}
}

// receive handles one new connection and delivers it to its receiver. It calls proved after the peer has proved the
// token, or failed to.
func (n *Node) receive(raw net.Conn, cert tls.Certificate, proved func()) {
	if !n.retain(raw) {
		proved()
		return
	}
	c, h, err := n.identify(raw, cert)
	proved()
	if err == nil {
		err = n.dispatch(c, h)
	}
	n.release(raw)
	if err != nil {
		raw.Close()
	}
}

// retain records a connection, so that Close can close it. If the node is closed already, retain closes it and returns false.
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

// identify checks a connection's proof of the token and reads its hello.
func (n *Node) identify(raw net.Conn, cert tls.Certificate) (net.Conn, hello, error) {
	var h hello
	c, err := accept(raw, n.token, cert)
	if err != nil {
		return nil, h, err
	}
	err = handshake(raw, func() error {
		_, err := (&Conn{Conn: c}).Receive(&h)
		return err
	})
	return c, h, err
}

// dispatch delivers a connection to its receiver: a waiting rank, or Accept.
func (n *Node) dispatch(c net.Conn, h hello) error {
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

// CloseGroup says that this process will not join the group (again). Ranks that wait for it here are notified at once.
func (n *Node) CloseGroup(t Table) { n.meetings.close(t.Group) }

// Accept waits for a call from another process.
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

// Call calls the process that listens at addr. The connection fails if that process stops reading, or neither answers nor
// sends heartbeats.
func (n *Node) Call(ctx context.Context, addr string) (*Conn, error) {
	c, err := n.connect(ctx, addr, dialTime, hello{Call: true})
	if err == nil {
		c.silence = silence
	}
	return c, err
}

// connect connects to addr within a time (see dial), and sends the hello.
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
