package weights

import "latentbeam/kernels"

// Pipeline moves items through the ranks of a group in order, and sends the results of the last rank back to the first. While
// one rank works on an item, the next rank works on the item before. So all ranks are busy if there are as many items as ranks.
type Pipeline struct {
	Op    string // name of the exchanges
	Items int    // largest number of items; Ends may say that there are fewer
	// Take works on item i. It is called once on every rank. An item for which Empty reports true only takes a slot.
	Take  func(i int) error
	Empty func(i int) bool
	// Ends reports whether item i, which the rank has taken, is the last one. Void reports whether item i passes all ranks
	// without a result. All ranks must agree. Nil: never.
	Ends, Void func(i int) bool
	// On returns the tensors of item i that go to the next rank, Back those that go back to the first rank. A rank receives
	// into the same views that it sends from.
	On, Back func(i int) []kernels.Tensor
	// Done is called on the first rank with the returned tensors of item i, before the rank takes item i + ranks.
	Done func(i int) error
}

// Run runs the pipeline on one rank of g.
func (b Pipeline) Run(g *kernels.Group) error {
	rank, last := g.Rank(), g.Size()-1
	for round := 0; round < b.Items+last; round++ {
		here := round - rank // the item at this rank
		if b.exists(here) {
			if err := b.Take(here); err != nil {
				return err
			}
			if b.Ends != nil && b.Ends(here) {
				b.Items = here + 1
			}
		}
		var send, recv []kernels.Part
		parts := func(list []kernels.Part, peer int, views []kernels.Tensor) []kernels.Part {
			for _, v := range views {
				list = append(list, kernels.Part{Peer: peer, View: v})
			}
			return list
		}
		if rank < last && b.exists(here) {
			send = parts(send, rank+1, b.On(here))
		}
		if rank > 0 && b.exists(here+1) {
			recv = parts(recv, rank-1, b.On(here+1))
		}
		done := round - last // the item at the last rank
		returns := b.exists(done) && (b.Void == nil || !b.Void(done))
		if last > 0 && rank == last && returns {
			send = parts(send, 0, b.Back(done))
		}
		if last > 0 && rank == 0 && returns {
			recv = parts(recv, last, b.Back(done))
		}
		if last > 0 {
			if err := g.Exchange(b.Op, send, recv); err != nil {
				return err
			}
		}
		if rank == 0 && returns {
			if err := b.Done(done); err != nil {
				return err
			}
		}
	}
	return nil
}

// exists reports whether item i exists.
func (b Pipeline) exists(i int) bool { return i >= 0 && i < b.Items && (b.Empty == nil || !b.Empty(i)) }

// Chain is a Pipeline without results for the first rank: n items pass all ranks of g in order. Each rank calls take, which
// works on item i in place; view returns the rank's memory for the item. At the end the last rank has the items.
func Chain(g *kernels.Group, op string, n int, view func(i int) kernels.Tensor,
	take func(i int) error) error {
	return Pipeline{
		Op: op, Items: n, Take: take,
		On:   func(i int) []kernels.Tensor { return []kernels.Tensor{view(i)} },
		Back: func(int) []kernels.Tensor { return nil },
		Done: func(int) error { return nil },
	}.Run(g)
}
