package cluster

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// TestHeartbeats: a call goes on for as long as the called process sends heartbeats, even if it sends nothing else for longer than silence.
// It fails if the process sends no heartbeats or reads no more.
func TestHeartbeats(t *testing.T) {
	token := Token("0123456789abcdef")
	n, err := Listen("127.0.0.1:0", token)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	call := func(silence time.Duration) (near, far *Conn) {
		t.Helper()
		near, err := NewNode(token).Call(t.Context(), n.Addr())
		if err != nil {
			t.Fatal(err)
		}
		near.silence = silence
		if far, err = n.Accept(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { near.Close(); far.Close() })
		return near, far
	}

	near, far := call(beatEvery + 2*time.Second)
	go func() {
		stop := far.Beat()
		time.Sleep(2*beatEvery + 2*time.Second) // longer than near.silence
		stop()
		_ = far.Send("done", []byte("body"))
	}()
	var head string
	if body, err := near.Receive(&head); err != nil || head != "done" || string(body) != "body" {
		t.Errorf("an answer after heartbeats: got %q %q, %v; want done, body", head, body, err)
	}

	near, _ = call(200 * time.Millisecond)
	if _, err := near.Receive(&head); err == nil || !strings.Contains(err.Error(), "silent for 200ms: the process there is stopped") {
		t.Errorf("no heartbeats: got %v", err)
	}
	near, _ = call(200 * time.Millisecond)
	if err := near.Send("much", bytes.Repeat([]byte("x"), 64<<20)); err == nil ||
		!strings.Contains(err.Error(), "silent for 200ms") {
		t.Errorf("a message of 64 MiB that is not read: got %v", err)
	}
}
