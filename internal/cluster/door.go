package cluster

import (
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// lobby holds connections that have not proved the token yet, in order of arrival. An attacker can fill the lobby but
// cannot keep others out: when it is full, the oldest connection is closed, and connections that have sent nothing are closed
// first.
type lobby struct {
	most, mostOfOne int           // connections in all and from one address
	firstByte       time.Duration // time for a connection to send its first byte
	patience        time.Duration // time that an active connection may stay while others wait

	mu     sync.Mutex
	guests []*unproven
}

// unproven is a connection in the lobby.
type unproven struct {
	net.Conn
	from  string // address without port
	since time.Time
	spoke atomic.Bool
}

func newLobby() *lobby {
	return &lobby{most: maxUnproven, mostOfOne: maxUnproven / 2, firstByte: firstByteTime, patience: crowdedTime}
}

// Read implements net.Conn.
func (g *unproven) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	if n > 0 && !g.spoke.Load() {
		g.spoke.Store(true)
	}
	return n, err
}

// enter adds a connection, and waits for room if necessary. It closes a connection that sends nothing for too long.
func (d *lobby) enter(raw net.Conn) *unproven {
	host, _, err := net.SplitHostPort(raw.RemoteAddr().String())
	if err != nil {
		host = raw.RemoteAddr().String()
	}
	g := &unproven{Conn: raw, from: host, since: time.Now()}
	for !d.admit(g) {
		time.Sleep(crowdedPause)
	}
	time.AfterFunc(d.firstByte, func() {
		if !g.spoke.Load() {
			raw.Close()
		}
	})
	return g
}

// admit adds g. If the lobby is full, it closes another connection. It returns false if all others are proving
// the token and still have time.
func (d *lobby) admit(g *unproven) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	count := map[string]int{}
	for _, o := range d.guests {
		count[o.from]++
	}
	crowd := ""
	switch {
	case count[g.from] >= d.mostOfOne:
		crowd = g.from
	case len(d.guests) >= d.most:
		for from, n := range count {
			if n > count[crowd] {
				crowd = from
			}
		}
	default:
		d.guests = append(d.guests, g)
		return true
	}
	i := slices.IndexFunc(d.guests, func(o *unproven) bool { return o.from == crowd && !o.spoke.Load() })
	if i < 0 {
		i = slices.IndexFunc(d.guests, func(o *unproven) bool { return o.from == crowd })
		if time.Since(d.guests[i].since) < d.patience {
			return false
		}
	}
	d.guests[i].Close()
	d.guests = append(slices.Delete(d.guests, i, i+1), g)
	return true
}

// remove removes a connection that has proved the token or failed.
func (d *lobby) remove(g *unproven) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := slices.Index(d.guests, g); i >= 0 {
		d.guests = slices.Delete(d.guests, i, i+1)
	}
}
