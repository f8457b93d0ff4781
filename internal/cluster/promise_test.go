package cluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"testing"
	"time"

	"latentbeam/internal/system/testaid"
)

// recorder is a connection that keeps what is sent over it.
type recorder struct {
	net.Conn
	sent *bytes.Buffer
}

func (r recorder) Write(p []byte) (int, error) {
	r.sent.Write(p)
	return r.Conn.Write(p)
}

// recordProof returns the bytes that a process sends when it proves that it knows the token.
func recordProof(t *testing.T, node *Node) []byte {
	t.Helper()
	raw, err := net.Dial("tcp", node.Addr())
	if err != nil {
		t.Fatal(err)
	}
	var sent bytes.Buffer
	c := tls.Client(recorder{raw, &sent}, &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true})
	defer raw.Close()
	if err = c.Handshake(); err == nil {
		err = token.prove(c, dialer)
	}
	if err != nil {
		t.Fatal(err)
	}
	return sent.Bytes()
}

// stranger connects to a node without the token, in one of several ways. It returns the way, and how many bytes the node has answered over TLS.
func stranger(random *rand.Rand, addr string, replay []byte) (way string, answered int) {
	raw, err := net.DialTimeout("tcp", addr, 10*time.Second)
	if err != nil {
		return "refused", 0
	}
	defer raw.Close()
	_ = raw.SetDeadline(time.Now().Add(10 * time.Second))
	noise := make([]byte, 1+random.IntN(4000))
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	switch way := []string{"noise", "replay", "damaged replay", "TLS 1.2", "noise under TLS", "wrong token",
		"hang up"}[random.IntN(7)]; way {
	case "noise":
		_, _ = raw.Write(noise)
		return way, 0
	case "replay", "damaged replay":
		text := bytes.Clone(replay)
		if way != "replay" {
			text[random.IntN(len(text))] ^= 1 << random.IntN(8)
		}
		_, _ = raw.Write(text)
		return way, 0
	case "TLS 1.2":
		return way, sendTLS(raw, &tls.Config{MaxVersion: tls.VersionTLS12, InsecureSkipVerify: true}, noise)
	case "noise under TLS":
		return way, sendTLS(raw, &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true}, noise)
	case "wrong token":
		c := tls.Client(raw, &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true})
		if c.Handshake() == nil {
			_ = Token(fmt.Sprintf("another token %d of some length", random.Uint64())).prove(c, dialer)
			n, _ := io.ReadFull(c, make([]byte, 1))
			return way, n
		}
		return way, 0
	default:
		return way, 0
	}
}

// sendTLS sends bytes over TLS and returns how many come back, at most 1.
func sendTLS(raw net.Conn, config *tls.Config, text []byte) int {
	c := tls.Client(raw, config)
	if c.Handshake() != nil {
		return 0
	}
	_, _ = c.Write(text)
	n, _ := io.ReadFull(c, make([]byte, 1))
	return n
}

// TestPromiseP14: processes without the token get no byte from a node, leave no goroutine there, and keep nobody out. A damaged message of a
// process that knows the token is an error, or a message with no more bytes than were sent. LATENTBEAM_STRANGERS is the number of both.
func TestPromiseP14(t *testing.T) {
	before := runtime.NumGoroutine()
	node, err := Listen("127.0.0.1:0", token)
	if err != nil {
		t.Fatal(err)
	}
	replay := recordProof(t, node)
	n := testaid.Count(t, "LATENTBEAM_STRANGERS", 150)
	random := rand.New(rand.NewPCG(14, uint64(n)))
	ways := map[string]int{}
	for range n {
		way, answered := stranger(random, node.Addr(), replay)
		if ways[way]++; answered > 0 {
			t.Errorf("a stranger (%s) got an answer", way)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		if c, err := NewNode(token).Call(ctx, node.Addr()); err == nil {
			_ = c.Send("hello", []byte("body"))
			<-ctx.Done()
			c.Close()
		}
	}()
	c, err := node.Accept(ctx)
	if err != nil {
		t.Fatalf("a process that knows the token does not get in: %v", err)
	}
	var head string
	if body, err := c.Receive(&head); err != nil || head != "hello" || string(body) != "body" {
		t.Errorf("its message is received as %q %q, %v", head, body, err)
	}
	cancel()
	c.Close()
	node.Close()
	good := message(`{"op": "run", "rows": [1, 2, 3]}`, "the body of a message", 32, 21)
	refused := 0
	for range n {
		bad := bytes.Clone(good)
		for range 1 + random.IntN(3) {
			bad[random.IntN(len(bad))] ^= 1 << random.IntN(8)
		}
		bad = bad[:len(bad)-random.IntN(2)*random.IntN(len(bad))] // half of them are cut
		if _, body, err := receive(bad); err != nil {
			refused++
		} else if len(body) > len(bad) {
			t.Errorf("got a body of %d bytes from %d bytes", len(body), len(bad))
		}
	}
	checkGoroutines(t, before)
	t.Logf("P14: %d strangers %v: none got a byte after TLS, who knows the token got in; %d damaged messages, %d of them "+
		"refused", n, ways, n, refused)
}
