package kernels

import (
	"context"
	"fmt"
	"time"
)

// Tag names one exchange of a group. Ranks that come to an exchange under different tags compute different
// things, so all of them get an error.
type Tag struct {
	Plan  uint64 // hash of the plan of ownership
	Step  int    // sampling step
	Block int    // block of the network
	Op    string // what is exchanged, such as "space in"; at most MaxOp bytes
}

// MaxOp bounds Tag.Op.
const MaxOp = 32

// String is the tag as errors show it.
func (t Tag) String() string {
	return fmt.Sprintf("%q of step %d, block %d, plan %016x", t.Op, t.Step, t.Block, t.Plan)
}

// Part is what one rank sends to a peer or receives from it in an exchange: a strided view, such as a
// rectangle of tokens. The k-th part that a sends to b meets the k-th that b receives from a; the two have
// one shape and one element type.
type Part struct {
	Peer int
	View Tensor
}

// Transport carries parts between the ranks of a group. A value is one rank's end of it and serves that
// rank's goroutine, but for Abort, which may be called from anywhere.
type Transport interface {
	// Rank returns which rank this is, from 0, and Size how many there are.
	Rank() int
	Size() int
	// Exchange is entered by every rank, in the same order and under the same tag, also by those that have
	// nothing to send. It ends when what this rank receives is in place (on be's stream) and what it sends
	// may be overwritten. An error ends the group: the other ranks get it too, soon and not at their
	// deadline. A rank that does not come is an error when ctx ends.
	Exchange(ctx context.Context, be Backend, tag Tag, send, recv []Part) error
	// Abort ends the group: exchanges under way and to come fail with cause on every rank.
	Abort(cause error)
	// Sub returns this rank's end of the group of some of the ranks, in the order given; this one is among
	// them. It ends together with the whole group.
	Sub(ranks []int) (Transport, error)
}

// Group is one rank's membership in a set of ranks that compute one batch together. It belongs to one run
// and one goroutine. The nil Group is that of a rank alone.
type Group struct {
	ctx     context.Context // of the run: a rank's code is as deep as a model and has no use for it but here
	tr      Transport
	be      Backend
	patient time.Duration
	tag     Tag
	last    time.Time
	traffic Traffic
	tell    Exchanged // nil: nobody is told
}

// Traffic counts what a rank has sent to others.
type Traffic struct {
	Exchanges int
	Bytes     int64
}

type exchangeKey struct{}

// Exchanged is told of an exchange of the rank that computes on be.
type Exchanged func(be Backend, tag Tag, began time.Time, bytes int64)

// WithExchanges returns a context whose groups tell of their exchanges.
func WithExchanges(ctx context.Context, tell Exchanged) context.Context {
	return context.WithValue(ctx, exchangeKey{}, tell)
}

// slower is how many times longer than this rank another may need for the same stretch of work before it
// counts as missing.
const slower = 10

// NewGroup returns the membership of tr's rank, which computes on be, for a run that ends with ctx. An
// exchange waits for the others as long as patience, or, where this rank has just worked longer, ten times
// its own work.
func NewGroup(ctx context.Context, tr Transport, be Backend, patience time.Duration) *Group {
	tell, _ := ctx.Value(exchangeKey{}).(Exchanged)
	return &Group{ctx: ctx, tr: tr, be: be, patient: patience, last: time.Now(), tell: tell}
}

// Sub returns the membership in the group of some of the ranks, in the order given, of which this is one. It
// waits as long as patience, or as g does where that is longer.
func (g *Group) Sub(ranks []int, patience time.Duration) (*Group, error) {
	tr, err := g.tr.Sub(ranks)
	if err != nil {
		return nil, err
	}
	return NewGroup(g.ctx, tr, g.be, max(patience, g.patient)), nil
}

// Rank returns which rank this is, from 0.
func (g *Group) Rank() int {
	if g == nil {
		return 0
	}
	return g.tr.Rank()
}

// Size returns how many ranks there are.
func (g *Group) Size() int {
	if g == nil {
		return 1
	}
	return g.tr.Size()
}

// Traffic returns what this rank has sent so far.
func (g *Group) Traffic() Traffic {
	if g == nil {
		return Traffic{}
	}
	return g.traffic
}

// Follow sets the plan, Step the sampling step and Block the block that the next exchanges are tagged with.
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

// Exchange sends and receives parts, an all-to-all of any sizes. A part for this rank itself is copied. Every
// rank calls it, in the same order.
func (g *Group) Exchange(op string, send, recv []Part) error {
	if g == nil {
		return fmt.Errorf("exchange %q: a rank alone has no peers", op)
	}
	if len(op) > MaxOp {
		return fmt.Errorf("exchange %q: the name has more than %d bytes", op, MaxOp)
	}
	mine, send := apart(g.Rank(), send)
	own, recv := apart(g.Rank(), recv)
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
	wait := max(g.patient, slower*time.Since(g.last))
	ctx, cancel := context.WithTimeoutCause(g.ctx, wait, fmt.Errorf("waited %v", wait))
	defer cancel()
	began := time.Now()
	err := g.tr.Exchange(ctx, g.be, tag, send, recv)
	g.last = time.Now()
	if g.tell != nil {
		g.tell(g.be, tag, began, bytes)
	}
	return err
}

// apart separates the parts for this rank itself from the others.
func apart(rank int, parts []Part) (own, others []Part) {
	for _, p := range parts {
		if p.Peer == rank {
			own = append(own, p)
		} else {
			others = append(others, p)
		}
	}
	return own, others
}

// AllGather gives every rank everybody's part: parts[r] is where rank r's goes, and parts[Rank()] holds this
// rank's own already. Parts may differ in size.
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

// Broadcast gives every rank what t holds on rank root.
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

// Barrier returns when every rank has come to it.
func (g *Group) Barrier(op string) error {
	if g.Size() == 1 {
		return nil
	}
	return g.Exchange(op, nil, nil)
}
