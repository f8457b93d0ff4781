package cluster

import (
	"context"
	"net"
	"testing"
	"time"
)

// TestIdleConnections: connections that never prove themselves keep nobody out, whether they say nothing at all or a
// few bytes only. There are more of them than the door holds.
func TestIdleConnections(t *testing.T) {
	for name, say := range map[string]string{"silent": "", "slow": "\x16\x03"} {
		t.Run(name, func(t *testing.T) {
			token := Token("0123456789abcdef")
			n, err := Listen("127.0.0.1:0", token)
			if err != nil {
				t.Fatal(err)
			}
			defer n.Close()
			for range maxUnproven + 50 {
				c, err := net.Dial("tcp", n.Addr())
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if _, err := c.Write([]byte(say)); err != nil {
					break // the door is crowded
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), handshakeTime/2)
			defer cancel()
			go func() {
				if c, err := NewNode(token).Call(ctx, n.Addr()); err == nil {
					defer c.Close()
					<-ctx.Done()
				}
			}()
			c, err := n.Accept(ctx)
			if err != nil {
				t.Fatalf("who knows the token does not get in: %v", err)
			}
			c.Close()
		})
	}
}

// TestDoor: the oldest silent connection of the largest crowd goes first, then the oldest that has had its time.
func TestDoor(t *testing.T) {
	d := &lobby{most: 3, mostOfOne: 2, firstByte: time.Hour, patience: time.Hour}
	guests := map[string]*unproven{}
	come := func(name, from string, spoke bool) bool {
		ours, theirs := net.Pipe()
		t.Cleanup(func() { theirs.Close() })
		g := &unproven{Conn: ours, from: from, since: time.Now()}
		g.spoke.Store(spoke)
		guests[name] = g
		return d.admit(g)
	}
	check := func(want ...string) {
		t.Helper()
		if len(d.guests) != len(want) {
			t.Fatalf("%d in the door, want %v", len(d.guests), want)
		}
		for i, name := range want {
			if d.guests[i] != guests[name] {
				t.Errorf("place %d is not %s", i, name)
			}
		}
	}
	come("a1", "a", true)
	come("a2", "a", false)
	come("a3", "a", true) // in place of the silent one
	check("a1", "a3")
	if come("a4", "a", false) {
		t.Error("one that has just begun is dropped")
	}
	come("b1", "b", true)
	if come("c1", "c", false) {
		t.Error("the door holds more than it may")
	}
	d.patience = 0
	come("c2", "c", false) // a has most
	check("a3", "b1", "c2")
	d.remove(guests["b1"])
	d.remove(guests["b1"])
	check("a3", "c2")
}
