package cluster

import (
	"context"
	"net"
	"testing"
	"time"
)

// TestIdleConnections: more connections than the lobby holds never prove that they know the token, because they send nothing or only a few
// bytes. A process that knows the token gets in nevertheless.
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
					break // the lobby is full, and the node has closed the connection
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
				t.Fatalf("a process that knows the token does not get in: %v", err)
			}
			c.Close()
		})
	}
}

// TestLobby: which connection is dropped for a new one when the lobby is full. The lobby has room for 3 connections in all and for 2 of one
// host. Of the host with most of them, the oldest connection that sent nothing goes first, then the oldest whose time is over.
func TestLobby(t *testing.T) {
	d := &lobby{most: 3, mostOfOne: 2, firstByte: time.Hour, patience: time.Hour}
	guests := map[string]*unproven{}
	// come lets a connection from a host into the lobby, and reports whether it was admitted. spoke: it has sent a byte.
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
			t.Fatalf("%d connections are in the lobby, want %v", len(d.guests), want)
		}
		for i, name := range want {
			if d.guests[i] != guests[name] {
				t.Errorf("place %d is not %s", i, name)
			}
		}
	}
	come("a1", "a", true)
	come("a2", "a", false)
	come("a3", "a", true) // takes the place of a2, which sent nothing
	check("a1", "a3")
	if come("a4", "a", false) {
		t.Error("a4 was admitted, although no connection of host a had its time")
	}
	come("b1", "b", true)
	if come("c1", "c", false) {
		t.Error("c1 was admitted as the fourth of three")
	}
	d.patience = 0
	come("c2", "c", false) // host a has most connections, so its oldest one goes
	check("a3", "b1", "c2")
	d.remove(guests["b1"])
	d.remove(guests["b1"]) // a second call does nothing
	check("a3", "c2")
}
