package kernels

import (
	"context"
	"fmt"
	"time"
)

// Tag names one exchange of a group. If ranks enter an exchange with different tags, they compute different things, so all of
// them get an error.
type Tag struct {
	Plan  uint64 // hash of the plan that assigns elements to ranks
	Step  int    // sampling step
	Block int    // block of the network
	Op    string // what is exchanged, such as "space in"; at most MaxOp bytes
}

// MaxOp is the greatest length of Tag.Op.
const MaxOp = 32

// String returns the tag as error messages show it.
func (t Tag) String() string {
	return fmt.Sprintf("%q of step %d, block %d, plan %016x", t.Op, t.Step, t.Block, t.Plan)
}

// Part is the data that one rank sends to a peer or receives from it in an exchange: a strided view, such as a rectangle of
// tokens. The k-th part that rank a sends to rank b fills the k-th part that b receives from a. Both have the same shape and
// element type.
type Part struct {
	Peer int
	View Tensor
}

// Transport carries parts between the ranks of a group. A value belongs to one rank and serves only that rank's goroutine. Only
// Abort is safe for concurrent use.
type Transport interface {
	// Rank returns the index of this rank, from 0, and Size the number of ranks.
	Rank() int
	Size() int
	// Every rank calls Exchange in the same order and with the same tag, even if it has nothing to send. It returns when the
	// received parts are in place (on be's stream) and the sent parts may be overwritten. An error ends the group: the other
	// ranks get it at once, they do not wait for their deadline. If a rank does not call Exchange, the others return an error
	// when ctx ends.
	Exchange(ctx context.Context, be Backend, tag Tag, send, recv []Part) error
	// Abort ends the group: current and later exchanges fail with cause on every rank.
	Abort(cause error)
	// Sub returns this rank's Transport for a group of some of the ranks, in the given order; this rank is one of them. It ends
	// together with the whole group.
	Sub(ranks []int) (Transport, error)
}

// Group is one rank's membership in a set of ranks that compute one batch together. It belongs to one run and one goroutine. A
// nil Group is a group of one rank.
type Group struct {
	ctx          context.Context // the run's context; a field, so that the layers of a model need not pass it on
	tr           Transport
	be           Backend
	patience     time.Duration // least time to wait for the other ranks
	tag          Tag
	lastExchange time.Time
	traffic      Traffic
	notify       Exchanged // called after each exchange; may be nil
}

// Traffic counts what a rank has sent to others.
type Traffic struct {
	Exchanges int
	Bytes     int64
}

type exchangeKey struct{}

// Exchanged is called after an exchange of the rank that computes on be.
type Exchanged func(be Backend, tag Tag, began time.Time, bytes int64)

// WithExchanges returns a context whose groups call notify after each exchange.
func WithExchanges(ctx context.Context, notify Exchanged) context.Context {
	return context.WithValue(ctx, exchangeKey{}, notify)
}

// patienceFactor limits how long a rank waits for the others: it gives them ten times its own working time since the last exchange
// before it counts them as missing.
const patienceFactor = 10

// NewGroup returns the membership of tr's rank, which computes on be, for a run that ends with ctx. An exchange waits for the
// other ranks as long as patience, or ten times as long as this rank has just worked, if that is longer.
func NewGroup(ctx context.Context, tr Transport, be Backend, patience time.Duration) *Group {
	notify, _ := ctx.Value(exchangeKey{}).(Exchanged)
	return &Group{ctx: ctx, tr: tr, be: be, patience: patience, lastExchange: time.Now(), notify: notify}
}

// Sub returns this rank's membership in a group of some of the ranks, in the given order; this rank is one of them. The new
// group waits as long as patience, or as long as g does if that is longer.
func (g *Group) Sub(ranks []int, patience time.Duration) (*Group, error) {
	tr, err := g.tr.Sub(ranks)
	if err != nil {
		return nil, err
	}
	return NewGroup(g.ctx, tr, g.be, max(patience, g.patience)), nil
}

// Rank returns the index of this rank, from 0.
func (g *Group) Rank() int {
	if g == nil {
		return 0
	}
	return g.tr.Rank()
}

// Size returns the number of ranks.
func (g *Group) Size() int {
	if g == nil {
		return 1
	}
	return g.tr.Size()
}

// Traffic returns the counts of what this rank has sent so far.
func (g *Group) Traffic() Traffic {
	if g == nil {
		return Traffic{}
	}
	return g.traffic
}

// Follow sets the plan in the tags of the next exchanges. Step and Block set the sampling step and the block.
func (g *Group) Follow(plan uint64) {
	if g != nil {
		g.tag.Plan = plan
	}
}

// Step sets the sampling step; see Follow.
func (g *Group) Step(step int) {
	if g != nil {
		g.tag.Step, g.tag.Block = step, 0
	}
}

// Block sets the block of the network; see Follow.
func (g *Group) Block(block int) {
	if g != nil {
		g.tag.Block = block
	}
}

// Exchange sends and receives parts, an all-to-all of any sizes. It copies a part from this rank to itself. Every rank calls
// it, in the same order.
func (g *Group) Exchange(op string, send, recv []Part) error {
	if g == nil {
		return fmt.Errorf("exchange %q: a rank alone has no peers", op)
	}
	if len(op) > MaxOp {
		return fmt.Errorf("exchange %q: the name has more than %d bytes", op, MaxOp)
	}
	mine, send := splitOwn(g.Rank(), send)
	own, recv := splitOwn(g.Rank(), recv)
	if len(mine) != len(own) {
		err := fmt.Errorf("exchange %q: rank %d sends itself %d parts and expects %d",
			op, g.Rank(), len(mine), len(own))
		g.tr.Abort(err)
		return err
	}
	for i := range mine {
		g.be.Copy(own[i].View, mine[i].View)
	}
	bytes := int64(0)
	for _, p := range send {
		bytes += int64(p.View.Len()) * int64(p.View.DType.Size())
	}
	g.traffic.Bytes += bytes
	g.traffic.Exchanges++
	tag := g.tag
	tag.Op = op
	wait := max(g.patience, patienceFactor*time.Since(g.lastExchange))
	ctx, cancel := context.WithTimeoutCause(g.ctx, wait, fmt.Errorf("waited %v", wait))
	defer cancel()
	began := time.Now()
	err := g.tr.Exchange(ctx, g.be, tag, send, recv)
	g.lastExchange = time.Now()
	if g.notify != nil {
		g.notify(g.be, tag, began, bytes)
	}
	return err
}

// splitOwn separates the parts for this rank itself from the others.
func splitOwn(rank int, parts []Part) (own, others []Part) {
	for _, p := range parts {
		if p.Peer == rank {
			own = append(own, p)
		} else {
			others = append(others, p)
		}
	}
	return own, others
}

// AllGather sends every rank's part to all ranks: parts[r] receives the part of rank r, and parts[Rank()] already holds this
// rank's part. Parts may differ in size.
func (g *Group) AllGather(op string, parts []Tensor) error {
	if g.Size() == 1 {
		return nil
	}
	var send, recv []Part
	for r, t := range parts {
		if r != g.Rank() {
			send = append(send, Part{r, parts[g.Rank()]})
			recv = append(recv, Part{r, t})
		}
	}
	return g.Exchange(op, send, recv)
}

// Broadcast copies t from rank root to every rank.
func (g *Group) Broadcast(op string, root int, t Tensor) error {
	if g.Size() == 1 {
		return nil
	}
	if g.Rank() != root {
		return g.Exchange(op, nil, []Part{{root, t}})
	}
	var send []Part
	for r := range g.Size() {
		if r != root {
			send = append(send, Part{r, t})
		}
	}
	return g.Exchange(op, send, nil)
}

// Barrier returns when every rank has called it.
func (g *Group) Barrier(op string) error {
	if g.Size() == 1 {
		return nil
	}
	return g.Exchange(op, nil, nil)
}
