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

// Table says where the ranks of a group are. Of two ranks in different processes the lower one calls the
// higher one, so a process that does not listen must have the lowest ranks.
type Table struct {
	Group string   // a name that no other group has, see NewTable
	Hosts []string // by rank: where its process listens, "" for one that does not
	// Link says that the devices may be linked (kernels.Linker): what ranks exchange does not pass through their
	// hosts then, and is not encrypted.
	Link bool `json:",omitempty"`
}

// NewTable returns the table of a new group.
func NewTable(hosts []string) Table { return Table{Group: rand.Text(), Hosts: hosts} }

// Join connects the ranks mine of this process with all the others and returns their ends, in the order of
// mine. Every process of the group joins at about the same time; ctx ends the waiting for those that do not.
// Where the table allows it and all ranks can, their devices are linked; devices are those of mine, and may be
// nil where the table allows no links. Ends have a method Close.
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

// joining is a Join under way.
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
		// No time of its own: hundreds of connections at once may take long on a machine that computes.
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
