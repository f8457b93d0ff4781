package pool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"latentbeam/internal/fault"
	"latentbeam/internal/plan"
	"latentbeam/internal/transport"
	"latentbeam/kernels"
	"latentbeam/stages"
)

// JoinTime is how long the ranks of a set may take to find each other.
const JoinTime = time.Minute

// Fleet is the devices of this process and of worker processes on other hosts. A lease prefers devices of one
// process. A worker that fails to answer is not asked again in this run.
type Fleet struct {
	local *CPU
	node  *transport.Node
	job   json.RawMessage
	hosts []*host

	mu      sync.Mutex
	free    map[*host]int // devices; nil stands for this process
	changed chan struct{} // closed and made anew when devices come free
}

// host is a worker process.
type host struct {
	addr   string
	speeds []float64
	lost   bool
}

// Dial asks the workers at addrs what they have and returns the fleet with the devices of local. They must
// open the same job with the same weights, and compute in the same numeric class, or the bytes would differ.
func Dial(ctx context.Context, local *CPU, token transport.Token, addrs []string, job json.RawMessage,
	weights map[string]string) (*Fleet, error) {
	f := &Fleet{local: local, node: transport.NewNode(token), job: job,
		free: map[*host]int{nil: local.Size()}, changed: make(chan struct{})}
	for _, addr := range addrs {
		h := &host{addr: addr}
		reply, _, err := f.ask(ctx, h, Request{Job: job}, nil)
		if err != nil {
			return nil, fmt.Errorf("worker %s: %w", addr, err)
		}
		if reply.Class != local.Class() {
			return nil, fmt.Errorf("worker %s computes in class %s, this process in %s: the bytes would differ; "+
				"run them on processors of one kind", addr, reply.Class, local.Class())
		}
		for stage, digest := range weights {
			if reply.Weights[stage] != digest {
				return nil, fmt.Errorf("worker %s has other weights for %s: give it the same model directory", addr, stage)
			}
		}
		h.speeds = reply.Speeds
		f.hosts = append(f.hosts, h)
		f.free[h] = len(h.speeds)
		f.local.memory = smaller(f.local.memory, reply.Memory)
	}
	return f, nil
}

func smaller(a, b plan.Memory) plan.Memory {
	return plan.Memory{Target: min(a.Target, b.Target), Limit: min(a.Limit, b.Limit)}
}

// Size returns how many devices there are that were not lost.
func (f *Fleet) Size() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.size()
}

func (f *Fleet) size() int {
	n := f.local.Size()
	for _, h := range f.hosts {
		if !h.lost {
			n += len(h.speeds)
		}
	}
	return n
}

// Memory returns what a batch may use on any one device.
func (f *Fleet) Memory() plan.Memory { return f.local.Memory() }

// Class returns the numeric class of the results.
func (f *Fleet) Class() string { return f.local.Class() }

// Lease waits for a free device of this process.
func (f *Fleet) Lease(ctx context.Context) (kernels.Backend, func(ok bool), error) {
	taken, err := f.take(ctx, 1, true)
	if err != nil {
		return nil, nil, err
	}
	dev, release, err := f.local.Lease(ctx)
	if err != nil {
		f.giveBack(taken)
		return nil, nil, err
	}
	return dev, func(ok bool) { release(ok); f.giveBack(taken) }, nil
}

// LeaseSet waits for n free devices, or for all where there are fewer.
func (f *Fleet) LeaseSet(ctx context.Context, n int) (*stages.Set, func(ok bool), error) {
	taken, err := f.take(ctx, n, false)
	if err != nil {
		return nil, nil, err
	}
	set, release := &stages.Set{}, func(bool) {}
	if k := taken[nil]; k > 0 {
		if set, release, err = f.local.LeaseSet(ctx, k); err != nil {
			f.giveBack(taken)
			return nil, nil, err
		}
	}
	f.add(set, taken)
	return set, func(ok bool) { release(ok); f.giveBack(taken) }, nil
}

// add adds the devices of other processes to a set.
func (f *Fleet) add(set *stages.Set, taken map[*host]int) {
	mine := len(set.Devices)
	addrs := make([]string, mine)
	for _, h := range f.hosts {
		for i := range taken[h] {
			addrs = append(addrs, h.addr)
			set.Speeds = append(set.Speeds, h.speeds[i])
		}
	}
	if len(addrs) == mine {
		return
	}
	table := transport.NewTable(addrs)
	next := mine
	for _, h := range f.hosts {
		if taken[h] == 0 {
			continue
		}
		ranks := numbers(next, taken[h])
		next += taken[h]
		set.Away = append(set.Away, stages.Away{Ranks: ranks,
			Do: func(ctx context.Context, stage string, batch []byte) ([]byte, error) {
				r := Request{Job: f.job, Stage: stage, Table: table, Ranks: ranks, Speeds: set.Speeds}
				_, body, err := f.ask(ctx, h, r, batch)
				return body, err
			}})
	}
	set.Connect = func(ctx context.Context) ([]kernels.Transport, error) {
		ctx, cancel := context.WithTimeout(ctx, JoinTime)
		defer cancel()
		return f.node.Join(ctx, table, numbers(0, mine))
	}
}

// numbers returns n numbers from first on.
func numbers(first, n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = first + i
	}
	return out
}

// ask sends a request to a worker and waits for its answer. A worker that does not give one is lost.
func (f *Fleet) ask(ctx context.Context, h *host, r Request, batch []byte) (Reply, []byte, error) {
	var reply Reply
	conn, err := f.node.Call(ctx, h.addr)
	if err != nil {
		return reply, nil, f.lose(ctx, h, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := conn.Send(r, batch); err != nil {
		return reply, nil, f.lose(ctx, h, err)
	}
	body, err := conn.Receive(&reply)
	if err != nil {
		return reply, nil, f.lose(ctx, h, err)
	}
	return reply, body, reply.err()
}

// lose marks a worker as lost, unless the job ended, and returns the error to be tried again elsewhere.
func (f *Fleet) lose(ctx context.Context, h *host, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	h.lost = true
	delete(f.free, h)
	return fault.Retry(fmt.Errorf("worker %s does not answer: %w", h.addr, err))
}

// take waits for n free devices, or all of them: how many of which process.
func (f *Fleet) take(ctx context.Context, n int, here bool) (map[*host]int, error) {
	for {
		f.mu.Lock()
		if f.size() == 0 {
			f.mu.Unlock()
			return nil, fault.TryAgain(errors.New("no worker is left: start them again and run the job again"))
		}
		taken := f.choose(min(n, f.size()), here)
		for h, k := range taken {
			f.free[h] -= k
		}
		changed := f.changed
		f.mu.Unlock()
		if taken != nil {
			return taken, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// choose picks n free devices: of this process if it has as many, else of a worker that has, else of all. It
// returns nil where there are not so many.
func (f *Fleet) choose(n int, here bool) map[*host]int {
	order := append([]*host{nil}, f.hosts...)
	for _, h := range order {
		if f.free[h] >= n {
			return map[*host]int{h: n}
		}
		if here {
			return nil
		}
	}
	slices.SortStableFunc(order[1:], func(a, b *host) int { return f.free[b] - f.free[a] })
	taken := map[*host]int{}
	for _, h := range order {
		if k := min(n, f.free[h]); k > 0 {
			taken[h], n = k, n-k
		}
	}
	if n > 0 {
		return nil
	}
	return taken
}

func (f *Fleet) giveBack(taken map[*host]int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for h, k := range taken {
		if h == nil || !h.lost {
			f.free[h] += k
		}
	}
	close(f.changed)
	f.changed = make(chan struct{})
}
