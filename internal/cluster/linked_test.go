package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
)

// cable links devices through the memory of this process, as NCCL links GPUs. It fails for the ranks in its maps.
type cable struct {
	mu     sync.Mutex
	groups map[string][]kernels.Transport // ends of each link, by its id
	kinds  map[int]string                 // kind of link of a rank, if it is not "memory"
	none   map[int]error                  // ranks that have no link
	lost   map[int]error                  // ranks that cannot be linked
	broken map[int]error                  // ranks whose exchanges fail
	ids    int                            // number of ids that were created
	made   int                            // number of ends that were created
	closed int                            // number of ends that were closed
}

// wired is a backend whose device is linked by a cable.
type wired struct {
	kernels.Backend
	cable *cable
	rank  int
}

func (w *wired) Device() string { return fmt.Sprint("memory:", w.rank) }

func (w *wired) Capabilities() kernels.Capabilities {
	can := w.Backend.Capabilities()
	can.Linker = w
	return can
}

func (w *wired) LinkKind() (string, error) {
	if kind, ok := w.cable.kinds[w.rank]; ok {
		return kind, nil
	}
	return "memory", w.cable.none[w.rank]
}

func (w *wired) NewLink() ([]byte, error) {
	w.cable.mu.Lock()
	defer w.cable.mu.Unlock()
	w.cable.ids++
	return []byte(NewTable(nil).Group), nil
}

func (w *wired) Link(ctx context.Context, id []byte, rank, size int) (kernels.Link, error) {
	c := w.cable
	if err := c.lost[rank]; err != nil {
		return nil, err
	}
	c.mu.Lock()
	if c.groups[string(id)] == nil {
		c.groups[string(id)] = Shared(size)
	}
	tr := c.groups[string(id)][rank]
	c.mu.Unlock()
	be := w.Backend
	if err := tr.Exchange(ctx, be, kernels.Tag{Op: "link"}, nil, nil); err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.made++
	c.mu.Unlock()
	return &wire{c, tr, be, c.broken[rank]}, nil
}

// wire is a rank's end of a link.
type wire struct {
	cable  *cable
	tr     kernels.Transport
	be     kernels.Backend
	broken error
}

func (w *wire) Exchange(ctx context.Context, send, recv []kernels.Part) error {
	if w.broken != nil {
		return w.broken
	}
	ranks, mine := []int{}, w.tr.Rank()
	for r := range w.tr.Size() { // the ranks that the parts name: a whole group, or a group inside it
		if r == mine || names(send, r) || names(recv, r) {
			ranks = append(ranks, r)
		}
	}
	if len(ranks) == 1 {
		return nil
	}
	return w.pairs(ctx, ranks, send, recv)
}

// pairs exchanges with each other rank in turn, because the other ranks may exchange with ranks that this one does not.
func (w *wire) pairs(ctx context.Context, ranks []int, send, recv []kernels.Part) error {
	for sum := range 2 * w.tr.Size() { // all ranks go through the pairs in one order: by the sum of the two ranks
		other := sum - w.tr.Rank()
		if other == w.tr.Rank() || !names(send, other) && !names(recv, other) {
			continue
		}
		pair := []int{min(other, w.tr.Rank()), max(other, w.tr.Rank())}
		tr, err := w.tr.Sub(pair)
		if err == nil {
			peer := 0
			if pair[0] == w.tr.Rank() {
				peer = 1
			}
			err = tr.Exchange(ctx, w.be, kernels.Tag{Op: "wire"}, only(send, other, peer), only(recv, other, peer))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// names reports whether one of the parts is for a rank.
func names(parts []kernels.Part, rank int) bool { return len(only(parts, rank, rank)) > 0 }

// only returns the parts of the peer rank, with the number as in place of rank.
func only(parts []kernels.Part, rank, as int) (out []kernels.Part) {
	for _, p := range parts {
		if p.Peer == rank {
			out = append(out, kernels.Part{Peer: as, View: p.View})
		}
	}
	return out
}

func (w *wire) Close() {
	w.cable.mu.Lock()
	w.cable.closed++
	w.cable.mu.Unlock()
	w.tr.Abort(errors.New("the link was given up"))
}

func newCable() *cable {
	return &cable{groups: map[string][]kernels.Transport{}}
}

// at returns devices that are linked by the cable.
func (c *cable) at(devices []kernels.Backend) (out []kernels.Backend) {
	for r, be := range devices {
		out = append(out, &wired{be, c, r})
	}
	return out
}

// linkedTo returns the ends of ranks whose devices are linked by a cable. Each node has the given number of ranks.
func linkedTo(t testing.TB, devices []kernels.Backend, each int) []kernels.Transport {
	t.Helper()
	ends := joined(t, newCable().at(devices), each, true)
	for _, e := range ends {
		if _, ok := e.(*withNode).Transport.(*linked); !ok && len(ends) > 1 {
			t.Fatalf("the end %T is not linked", e.(*withNode).Transport)
		}
	}
	return ends
}

// processors returns n backends of the CPU.
func processors(n int) (out []kernels.Backend) {
	for range n {
		out = append(out, cpu.New(1))
	}
	return out
}

// TestNotLinked: if one rank of three cannot be linked, none is. The group exchanges over TCP, and each process has the reason.
func TestNotLinked(t *testing.T) {
	nothing := errors.New("libnccl.so.2 is not found")
	for name, c := range map[string]struct {
		spoil func(c *cable)
		why   string
	}{
		"no library": {func(c *cable) { c.none = map[int]error{2: nothing} }, "ranks [2]: libnccl.so.2 is not found"},
		"other versions": {func(c *cable) { c.kinds = map[int]string{1: "NCCL 2.1"} },
			"ranks [0 2] have memory; ranks [1] have NCCL 2.1"},
		"no socket": {func(c *cable) { c.lost = map[int]error{1: errors.New("no socket")} }, "ranks [1]: no socket"},
		"all fail": {func(c *cable) { c.lost = map[int]error{0: nothing, 1: nothing, 2: nothing} },
			"ranks [0 1 2]: libnccl"},
	} {
		t.Run(name, func(t *testing.T) {
			cable := newCable()
			c.spoil(cable)
			devices := cable.at(processors(3))
			ends := joined(t, devices, 1, true)
			defer closeAll(ends)
			err := kernels.RunRanks(t.Context(), ends, grace, func(ctx context.Context, i int, tr kernels.Transport) error {
				return transpose(kernels.NewGroup(ctx, tr, devices[i], patience), devices[i], kernels.F32, 4, 9)
			})
			if err != nil {
				t.Error(err)
			}
			for _, e := range ends {
				facts := e.(*withNode).node.Links()
				if facts.TCP != 1 || facts.Linked != 0 || !strings.Contains(fmt.Sprint(facts.Why), c.why) {
					t.Errorf("got %+v, want one group over TCP because of %q", facts, c.why)
				}
			}
			if cable.closed != cable.made {
				t.Errorf("%d ends of links were closed, want all %d", cable.closed, cable.made)
			}
		})
	}
}

// TestAvoided: a link that fails in an exchange ends the group, and the next group of these processes uses TCP.
func TestAvoided(t *testing.T) {
	cable := newCable()
	cable.broken = map[int]error{0: errors.New("remote process exited"), 1: errors.New("remote process exited")}
	first, err := Listen("127.0.0.1:0", token)
	if err != nil {
		t.Fatal(err)
	}
	second := NewNode(token)
	defer first.Close()
	defer second.Close()
	for round := range 2 {
		table := NewTable([]string{"", first.Addr()})
		table.Link = true
		devices := cable.at(processors(2))
		ends := make([]kernels.Transport, 2)
		var all sync.WaitGroup
		for r, node := range []*Node{second, first} {
			all.Go(func() {
				mine, err := node.Join(t.Context(), table, []int{r}, devices[r:r+1])
				if err != nil {
					t.Error(err)
					return
				}
				ends[r] = mine[0]
			})
		}
		if all.Wait(); t.Failed() {
			return
		}
		err := kernels.RunRanks(t.Context(), ends, grace, func(ctx context.Context, i int, tr kernels.Transport) error {
			return transpose(kernels.NewGroup(ctx, tr, devices[i], patience), devices[i], kernels.F32, 4, 9)
		})
		closeAll(ends)
		if (err == nil) != (round == 1) {
			t.Errorf("round %d: got error %v, want one in round 0 only", round, err)
		}
	}
	for _, facts := range []Links{first.Links(), second.Links()} { // both know why, whichever rank failed first
		known := slices.ContainsFunc(facts.Why, func(why string) bool {
			return strings.HasPrefix(why, "an exchange has failed: ") && strings.Contains(why, "remote process exited")
		})
		if facts.Linked != 1 || facts.TCP != 1 || !known {
			t.Errorf("got %+v, want one linked group, one over TCP, and the failed exchange as reason", facts)
		}
	}
}

// TestAvoidedByAll: the link fails between ranks 0 and 1. Rank 2 does not take part in this exchange, but its process learns the reason with
// the end of the group, and creates no link any more.
func TestAvoidedByAll(t *testing.T) {
	cable := newCable()
	cable.broken = map[int]error{0: errors.New("remote process exited"), 1: errors.New("remote process exited")}
	devices := cable.at(processors(3))
	ends := joined(t, devices, 1, true)
	err := kernels.RunRanks(t.Context(), ends, grace, func(ctx context.Context, i int, tr kernels.Transport) error {
		g := kernels.NewGroup(ctx, tr, devices[i], patience)
		if i == 2 {
			<-tr.(*withNode).Transport.(*linked).over.Done()
			return g.Barrier("end")
		}
		pair, err := g.Sub([]int{0, 1}, 0)
		if err != nil {
			return err
		}
		return transpose(pair, devices[i], kernels.F32, 4, 9)
	})
	closeAll(ends)
	if err == nil {
		t.Error("the exchange over the broken link returned no error")
	}
	for i, e := range ends {
		n := e.(*withNode).node
		if why := fmt.Sprint(n.Links().Why); !strings.Contains(why, "remote process exited") || !n.links.avoided() {
			t.Errorf("rank %d: the reason is %s, want the failed exchange, and no further links", i, why)
		}
	}
}

// TestLinkedPeerVanishes: rank 1 ends its connection in the middle of an exchange over the link. If it has not said bye before, rank 0 notices
// at once that it is gone. If it has said bye, which it does after its last exchange, rank 0 goes on waiting for the link.
func TestLinkedPeerVanishes(t *testing.T) {
	for name, bye := range map[string]bool{"after bye": true, "without bye": false} {
		t.Run(name, func(t *testing.T) {
			devices := processors(2)
			ends := linkedTo(t, devices, 1)
			defer closeAll(ends)
			first, second := ends[0].(*withNode).Transport.(*linked), ends[1].(*withNode).Transport.(*linked)
			x := filled(devices[0], kernels.F32, 0, 4)
			part := []kernels.Part{{Peer: 1, View: x}}
			tag := kernels.Tag{Op: "work"}
			go func() { // rank 1 sends the head of the exchange, and nothing more
				second.peers[0].expected = []kernels.Tensor{x}
				f := frame{kind: headFrame, tag: tag, from: 1}
				f.layout, _ = layoutOf(nil)
				second.peers[0].Write(f.encode())
				if time.Sleep(50 * time.Millisecond); bye {
					f := frame{kind: byeFrame, from: 1}
					second.peers[0].Write(f.encode())
				}
				second.peers[0].Close()
			}()
			want, wait := "rank 1 is gone", patience
			if bye {
				want, wait = "waited", 300*time.Millisecond
			}
			ctx, cancel := context.WithTimeoutCause(t.Context(), wait, errors.New("waited"))
			defer cancel()
			err := first.Exchange(ctx, devices[0], tag, part, nil)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got error %v, want %q", err, want)
			}
		})
	}
}

// TestLinkedInVain: ranks 0 and 1 are in one process, rank 2 in another. While they are linked, the connection between ranks 1 and 2 ends. Then
// there is no group, and all ends of the link are closed.
func TestLinkedInVain(t *testing.T) {
	cable := newCable()
	devices := cable.at(processors(3))
	conns := [3][]net.Conn{make([]net.Conn, 3), make([]net.Conn, 3), make([]net.Conn, 3)}
	for a := range conns {
		for b := range a {
			conns[a][b], conns[b][a] = net.Pipe()
		}
	}
	ends := []*mesh{newMesh(0, conns[0]), newMesh(1, conns[1])}
	far, dev := newMesh(2, conns[2]), devices[2].(*wired)
	gone := make(chan error, 1)
	go func() { // rank 2 tells rank 0 that it is linked, and tells rank 1 nothing
		_, err := far.swap(t.Context(), offer{Kind: "memory"})
		id, _, unnamed := far.invite(t.Context(), dev)
		link, unlinked := dev.Link(t.Context(), id, 2, 3)
		if err = errors.Join(err, unnamed, unlinked); err == nil {
			link.Close()
		}
		far.peers[1].Close()
		heard := far.receiveOffers(t.Context(), func(offer, error) {})
		err = errors.Join(err, (&Conn{Conn: far.peers[0].Conn}).Send(offer{}, nil))
		_, _ = heard()
		gone <- err
	}()
	out, err := NewNode(token).linkAll(t.Context(), Table{Link: true}, ends, devices[:2])
	if failed := <-gone; failed != nil {
		t.Fatal(failed)
	}
	if err == nil || out != nil || !strings.Contains(err.Error(), "rank 2 says nothing") {
		t.Errorf("got ends %v, error %v; want no ends, and that rank 2 says nothing", out, err)
	}
	if cable.made != 3 || cable.closed != 3 {
		t.Errorf("%d ends were created and %d closed, want 3 and 3", cable.made, cable.closed)
	}
}

// TestKept: a link is kept for the next group of the same devices in the same order. It is closed if its group failed, if one of its devices
// gets another link, and when its node closes. An id of a link is created only for a new link, because NCCL keeps a thread and a port for it
// until the link is made.
func TestKept(t *testing.T) {
	cable := newCable()
	far, err := Listen("127.0.0.1:0", token)
	if err != nil {
		t.Fatal(err)
	}
	near := NewNode(token)
	devices := cable.at(processors(3))
	// round runs a group of device a on the near node and device b on the far one. Its second rank returns the error fails.
	round := func(a, b int, fails error) {
		t.Helper()
		table := NewTable([]string{"", far.Addr()})
		table.Link = true
		ends, errs := make([]kernels.Transport, 2), make([]error, 2)
		var all sync.WaitGroup
		for r, node := range []*Node{near, far} {
			all.Go(func() {
				var mine []kernels.Transport
				mine, errs[r] = node.Join(t.Context(), table, []int{r}, []kernels.Backend{devices[[]int{a, b}[r]]})
				if errs[r] == nil {
					ends[r] = mine[0]
				}
			})
		}
		if all.Wait(); errors.Join(errs...) != nil {
			t.Fatal(errs)
		}
		err := kernels.RunRanks(t.Context(), ends, grace, func(ctx context.Context, i int, tr kernels.Transport) error {
			be := devices[[]int{a, b}[i]]
			if err := transpose(kernels.NewGroup(ctx, tr, be, patience), be, kernels.F32, 4, 9); err != nil || i == 0 {
				return err
			}
			return fails
		})
		if !errors.Is(err, fails) {
			t.Fatal(err)
		}
		closeAll(ends)
	}
	for i, c := range []struct {
		a, b         int
		fails        error
		made, closed int // ends of links so far
	}{
		{0, 1, nil, 2, 0},
		{0, 1, nil, 2, 0},                // uses the link of the first round
		{0, 2, nil, 4, 1},                // device 0 gets another link and closes its end of the first
		{0, 1, nil, 6, 3},                // a new link, for which devices 0 and 1 close their old ends
		{0, 1, errors.New("boom"), 6, 5}, // uses this link, which is closed after the error
		{0, 1, nil, 8, 5},
	} {
		round(c.a, c.b, c.fails)
		if cable.made != c.made || cable.closed != c.closed {
			t.Fatalf("round %d: %d ends made, %d closed, want %d and %d", i, cable.made, cable.closed, c.made, c.closed)
		}
		if cable.ids != c.made/2 {
			t.Fatalf("round %d: %d ids were created, want %d", i, cable.ids, c.made/2)
		}
	}
	if facts := near.Links(); facts.Linked != 6 || facts.TCP != 0 {
		t.Errorf("got %+v, want 6 linked groups and none over TCP", facts)
	}
	near.Close()
	far.Close()
	if cable.closed != cable.made {
		t.Errorf("after the nodes were closed, %d of %d ends are closed", cable.closed, cable.made)
	}
}
