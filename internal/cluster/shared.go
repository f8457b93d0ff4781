package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"latentbeam/kernels"
)

// Shared returns the transports of a group of n ranks in this process. A receiver copies directly from the
// sender's tensor with its own backend's Copy.
func Shared(n int) []kernels.Transport {
	h := &hub{groupEnd: &groupEnd{broken: make(chan struct{}), subs: map[string]*hub{}}, round: newRound(n)}
	ends := make([]kernels.Transport, n)
	for i := range ends {
		ends[i] = &shared{hub: h, rank: i, size: n, world: numbers(n)}
	}
	return ends
}

// numbers returns 0 to n-1.
func numbers(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// hub synchronises the ranks of a group.
type hub struct {
	*groupEnd
	round *round
}

// groupEnd is the end state that a group shares with its subgroups.
type groupEnd struct {
	mu     sync.Mutex
	cause  error           // reason why the group has ended; nil: it has not
	broken chan struct{}   // closed when the group ends
	subs   map[string]*hub // subgroups by their ranks
}

// round is one exchange.
type round struct {
	posts         []*post // by rank; nil: not posted yet
	arrived, done int
	copying       sync.WaitGroup // ranks that are reading others' tensors
	allPosted     chan struct{}  // closed when all ranks have posted
	allCopied     chan struct{}  // closed when all ranks have copied
}

// post is a rank's part of an exchange.
type post struct {
	tag  kernels.Tag
	send []kernels.Part
}

func newRound(n int) *round {
	return &round{posts: make([]*post, n), allPosted: make(chan struct{}), allCopied: make(chan struct{})}
}

type shared struct {
	hub        *hub
	rank, size int
	world      []int // numbers of the ranks in the outermost group
}

func (s *shared) Rank() int { return s.rank }
func (s *shared) Size() int { return s.size }

func (s *shared) Abort(cause error) { s.hub.abort(cause) }

// Sub returns the transport of a subgroup, which has its own hub.
func (s *shared) Sub(ranks []int) (kernels.Transport, error) {
	mine, err := subRank(s.rank, s.size, ranks)
	if err != nil {
		return nil, err
	}
	world := make([]int, len(ranks))
	for i, r := range ranks {
		world[i] = s.world[r]
	}
	end := s.hub.groupEnd
	end.mu.Lock()
	defer end.mu.Unlock()
	name := fmt.Sprint(world)
	if end.subs[name] == nil {
		end.subs[name] = &hub{groupEnd: end, round: newRound(len(ranks))}
	}
	return &shared{hub: end.subs[name], rank: mine, size: len(ranks), world: world}, nil
}

// subRank returns the index of rank in ranks. It returns an error if ranks are invalid for a group of size.
func subRank(rank, size int, ranks []int) (int, error) {
	seen := map[int]bool{}
	for _, r := range ranks {
		if r < 0 || r >= size || seen[r] {
			return 0, fmt.Errorf("group of ranks %v: each must be from 0 to %d and appear once", ranks, size-1)
		}
		seen[r] = true
	}
	if !seen[rank] {
		return 0, fmt.Errorf("group of ranks %v: rank %d is not among them", ranks, rank)
	}
	return slices.Index(ranks, rank), nil
}

// abort ends the group and returns the first cause of its end.
func (h *groupEnd) abort(cause error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cause == nil {
		h.cause = cause
		close(h.broken)
	}
	return h.cause
}

func (s *shared) Exchange(ctx context.Context, be kernels.Backend, tag kernels.Tag,
	send, recv []kernels.Part) error {
	if err := be.Wait(); err != nil { // the others are about to read this rank's tensors
		return s.hub.abort(fmt.Errorf("rank %d, %v: %w", s.rank, tag, err))
	}
	r, err := s.post(&post{tag, send})
	if err != nil {
		return err
	}
	if err := s.wait(ctx, r, r.allPosted, tag); err != nil {
		s.withdraw(r)
		return err
	}
	if err = s.copy(be, r, recv); err != nil {
		err = s.hub.abort(fmt.Errorf("rank %d, %v: %w", s.rank, tag, err))
	} else {
		s.finish(r)
		err = s.wait(ctx, r, r.allCopied, tag)
	}
	if err != nil {
		r.copying.Wait() // after this the caller may reuse its tensors
	}
	return err
}

// post publishes p to the other ranks.
func (s *shared) post(p *post) (*round, error) {
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cause != nil {
		return nil, h.cause
	}
	r := h.round
	for rank, other := range r.posts {
		if other != nil && other.tag != p.tag {
			h.cause = mismatch(s.rank, p.tag, rank, other.tag)
			close(h.broken)
			return nil, h.cause
		}
	}
	r.posts[s.rank] = p
	if r.arrived++; r.arrived == s.size {
		r.copying.Add(s.size)
		close(r.allPosted)
	}
	return r, nil
}

// mismatch returns the error for two ranks that start different exchanges.
func mismatch(rank int, tag kernels.Tag, other int, its kernels.Tag) error {
	return fmt.Errorf("rank %d is at %v, rank %d at %v: the ranks do not follow one plan", rank, tag, other, its)
}

// wait waits for c, the end of the group, or the end of ctx, which ends the group.
func (s *shared) wait(ctx context.Context, r *round, c <-chan struct{}, tag kernels.Tag) error {
	select {
	case <-c:
		return nil
	default:
	}
	select {
	case <-c:
		return nil
	case <-s.hub.broken:
		return s.hub.abort(nil)
	case <-ctx.Done():
		return s.timeout(ctx, r, tag)
	}
}

// withdraw withdraws a rank's post when the rank stops waiting. If all ranks have posted meanwhile,
// the others may be reading its tensors, and withdraw waits for them.
func (s *shared) withdraw(r *round) {
	s.hub.mu.Lock()
	met := r.arrived == s.size // cannot change: nobody posts after the group has ended
	s.hub.mu.Unlock()
	if met {
		r.copying.Done()
		r.copying.Wait()
	}
}

// timeout ends the group because a rank is missing.
func (s *shared) timeout(ctx context.Context, r *round, tag kernels.Tag) error {
	s.hub.mu.Lock()
	var missing []int
	for rank, p := range r.posts {
		if p == nil {
			missing = append(missing, rank)
		}
	}
	s.hub.mu.Unlock()
	cause := context.Cause(ctx)
	if len(missing) > 0 {
		return s.hub.abort(fmt.Errorf("rank %d, %v: ranks %v have not come: %w", s.rank, tag, missing, cause))
	}
	return s.hub.abort(fmt.Errorf("rank %d, %v: a rank has not finished: %w", s.rank, tag, cause))
}

// copy copies the parts that this rank receives, and marks itself as finished even after a panic, because the others wait.
// The tensors of a rank that panics stay valid until the others have read them.
func (s *shared) copy(be kernels.Backend, r *round, recv []kernels.Part) (err error) {
	panics := true
	defer func() {
		if r.copying.Done(); panics {
			r.copying.Wait()
		}
	}()
	err = s.receive(be, r, recv)
	panics = false
	return err
}

// receive copies the parts that this rank receives.
func (s *shared) receive(be kernels.Backend, r *round, recv []kernels.Part) error {
	at := make([]int, s.size) // position in each peer's list
	next := func(peer int) (kernels.Tensor, bool) {
		list := r.posts[peer].send
		for ; at[peer] < len(list); at[peer]++ {
			if list[at[peer]].Peer == s.rank {
				at[peer]++
				return list[at[peer]-1].View, true
			}
		}
		return kernels.Tensor{}, false
	}
	for _, p := range recv {
		if p.Peer < 0 || p.Peer >= s.size {
			return fmt.Errorf("there is no rank %d", p.Peer)
		}
		src, ok := next(p.Peer)
		if !ok {
			return fmt.Errorf("rank %d sends fewer parts than expected", p.Peer)
		}
		if !slices.Equal(src.Shape, p.View.Shape) || src.DType != p.View.DType {
			return fmt.Errorf("rank %d sends %v %v, expected %v %v",
				p.Peer, src.DType, src.Shape, p.View.DType, p.View.Shape)
		}
		be.Copy(p.View, src)
	}
	for peer := range s.size {
		if _, more := next(peer); more && peer != s.rank {
			return fmt.Errorf("rank %d sends more parts than expected", peer)
		}
	}
	return be.Wait()
}

// finish records that this rank has copied its parts. The last rank starts the next round.
func (s *shared) finish(r *round) {
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.done++; r.done == s.size {
		h.round = newRound(s.size)
		close(r.allCopied)
	}
}
