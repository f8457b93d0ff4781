package nn

import "latentbeam/kernels"

// Relay passes n items through all ranks of g in order: every rank takes each item once, after the rank
// before it, and hands it on. While one rank is at an item the next is at the one before, so with n items or
// more than ranks all are busy. take works on item i in place; view is where a rank keeps it. At the end the
// last rank has what came out.
func Relay(g *kernels.Group, op string, n int, view func(i int) kernels.Tensor,
	take func(i int) error) error {
	rank, last := g.Rank(), g.Size()-1
	for round := range n + last {
		var send, recv []kernels.Part
		if i := round - rank; i >= 0 && i < n {
			if err := take(i); err != nil {
				return err
			}
			if rank < last {
				send = []kernels.Part{{Peer: rank + 1, View: view(i)}}
			}
		}
		if i := round - rank + 1; rank > 0 && i >= 0 && i < n {
			recv = []kernels.Part{{Peer: rank - 1, View: view(i)}}
		}
		if last == 0 {
			continue
		}
		if err := g.Exchange(op, send, recv); err != nil {
			return err
		}
	}
	return nil
}
