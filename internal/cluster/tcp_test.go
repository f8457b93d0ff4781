package cluster

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"latentbeam/internal/system/testaid"
	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
)

var token = Token("a token for the tests")

// loopback returns the ends of n ranks over TCP. Each node has the given number of ranks, and the first node does not listen.
func loopback(t testing.TB, n, each int) []kernels.Transport {
	t.Helper()
	return joined(t, make([]kernels.Backend, n), each, false)
}

// joined returns the ends of ranks on these devices, after their nodes have joined one group. Each node has the given number of ranks. The
// devices are linked if link is set and they can be.
func joined(t testing.TB, devices []kernels.Backend, each int, link bool) []kernels.Transport {
	t.Helper()
	n := len(devices)
	var nodes []*Node
	var hosts []string
	for r := 0; r < n; r += each {
		node := NewNode(token)
		if r > 0 {
			var err error
			if node, err = Listen("127.0.0.1:0", token); err != nil {
				t.Fatal(err)
			}
		}
		nodes = append(nodes, node)
		for range min(each, n-r) {
			if r == 0 {
				hosts = append(hosts, "")
			} else {
				hosts = append(hosts, node.Addr())
			}
		}
	}
	table := NewTable(hosts)
	table.Link = link
	ends := make([]kernels.Transport, n)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var all sync.WaitGroup
	for i, node := range nodes {
		all.Go(func() {
			var mine []int
			for r := i * each; r < min(n, (i+1)*each); r++ {
				mine = append(mine, r)
			}
			joined, err := node.Join(ctx, table, mine, devices[mine[0]:][:len(mine)])
			if err != nil {
				t.Error(err)
				cancel() // the others would wait for these ranks
				return
			}
			for k, r := range mine {
				ends[r] = &withNode{joined[k], node}
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return ends
}

// withNode is an end that also closes its node.
type withNode struct {
	kernels.Transport
	node *Node
}

func (w *withNode) Close() error {
	return errors.Join(w.Transport.(io.Closer).Close(), w.node.Close())
}

func (w *withNode) peers() []*peer { return w.Transport.(*mesh).peers }

// TestToken: a process with another token gets the error ErrToken from a node. The node goes on, and receives a message of a process that knows
// the token.
func TestToken(t *testing.T) {
	before := runtime.NumGoroutine()
	node, err := Listen("127.0.0.1:0", token)
	if err != nil {
		t.Fatal(err)
	}
	stranger := NewNode(Token("another token of the right length"))
	_, err = stranger.Call(t.Context(), node.Addr())
	if err == nil || !strings.Contains(err.Error(), ErrToken.Error()) {
		t.Errorf("a process with another token: got error %v, want %v", err, ErrToken)
	}
	go func() {
		if c, err := NewNode(token).Call(t.Context(), node.Addr()); err == nil {
			c.Send("hello", []byte("body"))
			c.Close()
		}
	}()
	c, err := node.Accept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var head string
	if body, err := c.Receive(&head); err != nil || head != "hello" || string(body) != "body" {
		t.Errorf("received %q %q, %v; want hello, body", head, body, err)
	}
	c.Close()
	node.Close()
	checkGoroutines(t, before)
}

// TestGarbage: connections that speak another protocol, end at once or send nothing are dropped, and the node goes on.
func TestGarbage(t *testing.T) {
	before := runtime.NumGoroutine()
	node, err := Listen("127.0.0.1:0", token)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "GET / HTTP/1.1\r\n\r\n", strings.Repeat("x", 100_000)} {
		c, err := net.Dial("tcp", node.Addr())
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, text)
		c.Close()
	}
	silent, err := net.Dial("tcp", node.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	done := make(chan error, 1)
	go func() {
		c, err := NewNode(token).Call(t.Context(), node.Addr())
		if err == nil {
			c.Close()
		}
		done <- err
	}()
	c, err := node.Accept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	node.Close() // also ends the silent connection
	checkGoroutines(t, before)
}

// TestVanished: rank 1 of three sends something, or nothing, and ends its connections. The others notice at once, in the middle of a frame or
// between frames.
func TestVanished(t *testing.T) {
	for name, vanish := range map[string]func(w *withNode){
		"between frames": func(w *withNode) {},
		"half a head": func(w *withNode) {
			f := frame{kind: partsFrame, tag: kernels.Tag{Op: "work"}, from: 1}
			w.peers()[0].Write(f.encode()[:20])
		},
		"half a body": func(w *withNode) {
			hash, size := layoutOf([]kernels.Tensor{cpu.New(1).Alloc(kernels.F32, 100)})
			f := frame{kind: partsFrame, tag: kernels.Tag{Op: "work"}, from: 1, layout: hash,
				length: uint64(size)}
			w.peers()[0].Write(append(f.encode(), make([]byte, 7)...))
		},
		"another version": func(w *withNode) { w.peers()[0].Write(make([]byte, frameSize)) },
		"a frame that is too long": func(w *withNode) {
			f := frame{kind: partsFrame, tag: kernels.Tag{Op: "work"}, from: 1, length: 1 << 60}
			w.peers()[0].Write(f.encode())
		},
		"a wrong hash": func(w *withNode) {
			f := frame{kind: partsFrame, tag: kernels.Tag{Plan: 1, Op: "work"}, from: 1}
			w.peers()[0].Write(f.encode())
		},
	} {
		t.Run(name, func(t *testing.T) {
			before, began := runtime.NumGoroutine(), time.Now()
			ends := loopback(t, 3, 1)
			run := func(ctx context.Context, i int, tr kernels.Transport) error {
				if i == 1 {
					w := tr.(*withNode)
					vanish(w)
					for _, p := range w.peers() {
						if p != nil {
							p.Close()
						}
					}
					<-ctx.Done()
					return ctx.Err()
				}
				be := cpu.New(1)
				var recv []kernels.Part
				if i == 0 {
					recv = []kernels.Part{{Peer: 1, View: be.Alloc(kernels.F32, 100)}}
				}
				return kernels.NewGroup(ctx, tr, be, patience).Exchange("work", nil, recv)
			}
			err := kernels.RunRanks(t.Context(), ends, grace, run)
			if err == nil || !strings.Contains(err.Error(), "rank") {
				t.Errorf("got error %v, want one that names a rank", err)
			}
			if took := time.Since(began); took > patience/2 {
				t.Errorf("the others noticed after %v, want at most %v", took, patience/2)
			}
			closeAll(ends)
			checkGoroutines(t, before)
		})
	}
}

// TestNobodyJoins: Join returns an error if the other ranks do not come before the context ends, and at once if a rank has no address.
func TestNobodyJoins(t *testing.T) {
	before := runtime.NumGoroutine()
	node, err := Listen("127.0.0.1:0", token)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	table := NewTable([]string{"", node.Addr()})
	if _, err := node.Join(ctx, table, []int{1}, nil); err == nil || !strings.Contains(err.Error(), "has not called") {
		t.Errorf("got error %v, want that a rank has not called", err)
	}
	if _, err := NewNode(token).Join(t.Context(), NewTable([]string{"", ""}), []int{0}, nil); err == nil {
		t.Error("a group with two ranks without an address gave no error")
	}
	node.Close()
	checkGoroutines(t, before)
}

// TestReadToken: a token is read from a file without the spaces around it. It must not be too short or too long. A file that other users can
// read gives a warning.
func TestReadToken(t *testing.T) {
	dir := t.TempDir()
	for text, ok := range map[string]bool{
		"": false, "short": false, "  0123456789abcdef\n": true, strings.Repeat("x", maxToken+1): false,
	} {
		file := filepath.Join(dir, "token")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := ReadToken(file)
		if (err == nil) != ok || ok && string(got) != strings.TrimSpace(text) {
			t.Errorf("a file with %.20q: got token %q, %v; want a token: %v", text, got, err, ok)
		}
	}
	if _, err := ReadToken(filepath.Join(dir, "none")); err == nil {
		t.Error("a missing file gave no error")
	}
	for mode, warns := range map[os.FileMode]bool{0o600: false, 0o640: true, 0o604: true} {
		file, said := filepath.Join(dir, mode.String()), testaid.Log(t)
		if err := os.WriteFile(file, []byte("0123456789abcdef"), mode); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadToken(file); err != nil || strings.Contains(said.String(), "can be read by other users") != warns {
			t.Errorf("a file of mode %v: got %v and the log %q, want a warning: %v", mode, err, said, warns)
		}
	}
}

// FuzzFrame: no bytes make the decoder panic, and a frame that it accepts is the same after encoding and decoding.
func FuzzFrame(f *testing.F) {
	good := frame{kind: partsFrame, from: 4, length: 5,
		tag: kernels.Tag{Plan: 1, Step: 2, Block: -3, Op: "space in"}}
	f.Add(good.encode())
	f.Add(make([]byte, frameSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) != frameSize {
			return
		}
		got, err := decodeFrame(b)
		if err != nil {
			return
		}
		again, err := decodeFrame(got.encode())
		if err != nil || *again != *got {
			t.Errorf("%+v becomes %+v, %v", got, again, err)
		}
	})
}

// TestReasonAfterParts: if a peer sends its parts and then ends the group without reading, the error is the peer's reason, not that
// its connection is closed.
func TestReasonAfterParts(t *testing.T) {
	mine, theirs := pipe()
	other := &peer{Conn: theirs}
	tag := kernels.Tag{}
	go func() {
		if err := other.write(partsFrame, 1, tag, nil); err != nil {
			t.Error(err)
		}
		other.hangUp(1, errors.New("the cause"))
	}()
	be := cpu.New(1)
	m := newMesh(0, []net.Conn{nil, mine})
	defer m.Close()
	err := m.Exchange(t.Context(), be, tag, []kernels.Part{{Peer: 1, View: be.Alloc(kernels.F32, 4)}}, nil)
	if err == nil || !strings.Contains(err.Error(), "the cause") {
		t.Errorf("got error %v, want the peer's reason", err)
	}
}
