package stdit

import (
	"fmt"

	"latentbeam/kernels"
	"latentbeam/stages/nn"
)

// ForwardPipeline is Forward for ranks of pipeline parallelism, whose models were loaded with a Stage: each
// has a run of the blocks, through which the evaluations pass one after another. With as many evaluations
// as ranks all are at work. Every rank gives the same evaluations and gets all results, in the scope open
// at the call, with the bytes of Forward.
func (m *Model) ForwardPipeline(be kernels.Backend, g *kernels.Group, evaluations []Evaluation) (
	[]kernels.Tensor, error) {
	outs, all := make([]kernels.Tensor, len(evaluations)), make([]frames, len(evaluations))
	for i, e := range evaluations {
		var err error
		if all[i], err = m.check(e); err != nil {
			return nil, fmt.Errorf("stdit: %w", err)
		}
		outs[i] = m.output(be, e)
	}
	defer be.Scope()()
	hs := make([]kernels.Tensor, len(evaluations)) // (B, T', S, C)
	for i, e := range evaluations {
		p := e.Prepared
		hs[i] = be.Alloc(m.DType, e.X.Dim(0), p.times.Len, p.patches.Len, m.HiddenSize)
	}
	view := func(i int) kernels.Tensor { return hs[i] }
	err := nn.Relay(g, "blocks", len(evaluations), view, func(i int) error {
		defer be.Scope()()
		e := evaluations[i]
		if g.Rank() == 0 {
			be.Copy(hs[i], m.embed(be, e))
		}
		s := alone(hs[i], e.Prepared)
		t, err := m.advance(be, s, e, all[i])
		if err == nil && g.Rank() == g.Size()-1 {
			m.project(be, outs[i], s, t, all[i])
		}
		return err
	})
	for i := 0; err == nil && i < len(outs); i++ {
		err = g.Broadcast("result", g.Size()-1, outs[i])
	}
	if err != nil {
		return nil, fmt.Errorf("stdit: %w", err)
	}
	return outs, nil
}
