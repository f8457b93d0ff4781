package cluster

import (
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// door holds the connections that have not proved yet that they know the token, in order of arrival. Who does not
// know it can fill the door, but not keep others out: the oldest goes first, and those that have said nothing go
// before those that have.
type door struct {
	most, mostOfOne int           // connections, and those from one address
	firstByte       time.Duration // until a connection has said something
	patience        time.Duration // that one which has said something may stay while others want in

	mu     sync.Mutex
	guests []*guest
}

// guest is a connection in the door.
type guest struct {
	net.Conn
	from  string // address without port
	since time.Time
	spoke atomic.Bool
}

func newDoor() *door {
	return &door{most: maxUnproven, mostOfOne: maxUnproven / 2, firstByte: firstByteTime, patience: crowdedTime}
}

// Read implements net.Conn.
func (g *guest) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	if n > 0 && !g.spoke.Load() {
		g.spoke.Store(true)
	}
	return n, err
}

// enter lets a connection in, once there is room for it. The connection is closed if it says nothing for too long.
func (d *door) enter(raw net.Conn) *guest {
	host, _, err := net.SplitHostPort(raw.RemoteAddr().String())
	if err != nil {
		host = raw.RemoteAddr().String()
	}
	g := &guest{Conn: raw, from: host, since: time.Now()}
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

// admit adds g, in place of another where there is no room; false: all that are there have just begun to prove
// themselves.
func (d *door) admit(g *guest) bool {
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
	i := slices.IndexFunc(d.guests, func(o *guest) bool { return o.from == crowd && !o.spoke.Load() })
	if i < 0 {
		i = slices.IndexFunc(d.guests, func(o *guest) bool { return o.from == crowd })
		if time.Since(d.guests[i].since) < d.patience {
			return false
		}
	}
	d.guests[i].Close()
	d.guests = append(slices.Delete(d.guests, i, i+1), g)
	return true
}

// remove takes a connection out that has proved itself or given up.
func (d *door) remove(g *guest) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := slices.Index(d.guests, g); i >= 0 {
		d.guests = slices.Delete(d.guests, i, i+1)
	}
}
