package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"latentbeam/kernels"
)

// Table lists the addresses of a group's ranks. Of two ranks in different processes, the lower one calls the
// higher one. So a process that does not listen must have the lowest ranks.
type Table struct {
	Group string   // unique name of the group, see NewTable
	Hosts []string // by rank: address of its process; "": the process does not listen
	// Link says that devices may be linked (kernels.Linker). Linked devices exchange directly: the data do not pass through
	// the hosts and are not encrypted.
	Link bool `json:",omitempty"`
}

// NewTable returns the table of a new group.
func NewTable(hosts []string) Table { return Table{Group: rand.Text(), Hosts: hosts} }

// Join connects the ranks mine of this process with all other ranks and returns their transports, in the order of
// mine. All processes of the group must join at about the same time; ctx bounds the wait for them.
// Join links the devices if the table allows it and all ranks can. devices belong to mine, and may be
// nil if the table allows no links. The transports have a method Close.
func (n *Node) Join(ctx context.Context, t Table, mine []int, devices []kernels.Backend) (
	[]kernels.Transport, error) {
	if len(t.Hosts) > maxRanks {
		return nil, fmt.Errorf("join group: %d ranks, the most is %d", len(t.Hosts), maxRanks)
	}
	if t.Link && len(devices) != len(mine) {
		return nil, fmt.Errorf("join group: %d devices for %d ranks", len(devices), len(mine))
	}
	j := &joining{node: n, table: t, mine: mine, conns: map[rankPair]net.Conn{}}
	pairing, within := errgroup.WithContext(ctx)
	for _, r := range mine {
		for other := range t.Hosts {
			if other != r && (r < other || !slices.Contains(mine, other)) {
				pairing.Go(func() error {
					if err := j.pair(within, r, other); err != nil {
						return fmt.Errorf("rank %d with rank %d: %w", r, other, err)
					}
					return nil
				})
			}
		}
	}
	if err := pairing.Wait(); err != nil {
		for _, c := range j.conns {
			c.Close()
		}
		return nil, fmt.Errorf("join group: %w", err)
	}
	ends := make([]*mesh, len(mine))
	for i, r := range mine {
		conns := make([]net.Conn, len(t.Hosts))
		for other := range conns {
			conns[other] = j.conns[rankPair{t.Group, r, other}]
		}
		ends[i] = newMesh(r, conns)
	}
	return n.linkAll(ctx, t, ends, devices)
}

// joining is the state of a running Join.
type joining struct {
	node  *Node
	table Table
	mine  []int

	mu    sync.Mutex
	conns map[rankPair]net.Conn // From is a rank of this process
}

func (j *joining) retain(from, to int, c net.Conn) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.conns[rankPair{j.table.Group, from, to}] = c
}

// pair connects rank r of this process with another.
func (j *joining) pair(ctx context.Context, r, other int) error {
	if slices.Contains(j.mine, other) {
		a, b := pipe()
		j.retain(r, other, a)
		j.retain(other, r, b)
		return nil
	}
	c, err := j.connect(ctx, r, other)
	if err != nil {
		return err
	}
	j.retain(r, other, c)
	return nil
}

// connect calls a higher rank and waits for a lower one.
func (j *joining) connect(ctx context.Context, r, other int) (net.Conn, error) {
	if r < other {
		if j.table.Hosts[other] == "" {
			return nil, errors.New("its process does not listen: it must have the lowest ranks")
		}
		s := rankPair{j.table.Group, r, other}
		// No time limit of its own: hundreds of simultaneous connections may take long on a busy machine.
		c, err := j.node.connect(ctx, j.table.Hosts[other], 0, hello{Pair: &s})
		if err != nil {
			return nil, err
		}
		return c.Conn, nil
	}
	s := rankPair{j.table.Group, other, r}
	m, err := j.node.meetings.at(s)
	if err != nil {
		return nil, err
	}
	defer j.node.meetings.withdraw(s)
	select {
	case c := <-m.conn:
		return c, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("it has not called: %w", context.Cause(ctx))
	case <-j.node.closed:
		return nil, net.ErrClosed
	}
}
