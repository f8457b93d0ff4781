package weight

import "latentbeam/kernels"

// Relay passes n items through all ranks of g in order: every rank takes each item once, after the rank
// before it, and hands it on. take works on item i in place; view is where a rank keeps it. At the end the
// last rank has what came out.
func Relay(g *kernels.Group, op string, n int, view func(i int) kernels.Tensor,
	take func(i int) error) error {
	return Belt{
		Op: op, Items: n, Take: take,
		On:   func(i int) []kernels.Tensor { return []kernels.Tensor{view(i)} },
		Back: func(int) []kernels.Tensor { return nil },
		Done: func(int) error { return nil },
	}.Run(g)
}
