package t5

import (
	"fmt"

	"latentbeam/kernels"
	"latentbeam/stages/weights"
)

// EncodePipeline is Encode for ranks of pipeline parallelism, whose encoders were loaded with a Stage. Each rank has a run of
// the layers, and groups of prompts pass through the ranks one after another. With as many groups as ranks, all ranks work at
// the same time. Every rank passes the same groups and gets the rows of all groups. The result has the bytes of Encode.
func (e *Encoder) EncodePipeline(be kernels.Backend, g *kernels.Group, groups [][][]int32) (
	[][]kernels.Tensor, error) {
	outs, rows := make([]kernels.Tensor, len(groups)), make([][]kernels.Tensor, len(groups))
	for i, ids := range groups {
		if err := e.checkIDs(ids); err != nil {
			return nil, fmt.Errorf("encode text: %w", err)
		}
		outs[i], rows[i] = e.output(be, ids)
	}
	defer be.Scope()()
	xs := make([]kernels.Tensor, len(groups)) // (sum L, d_model)
	for i := range groups {
		xs[i] = be.Alloc(e.streamType(), outs[i].Shape...)
	}
	view := func(i int) kernels.Tensor { return xs[i] }
	err := weights.Chain(g, "layers", len(groups), view, func(i int) error {
		defer be.Scope()()
		x := xs[i]
		if g.Rank() == 0 {
			x = e.embed(be, groups[i])
		}
		x, err := e.advance(be, x, groups[i])
		if err != nil {
			return err
		}
		if g.Rank() == 0 {
			be.Copy(xs[i], x)
		}
		if g.Rank() == g.Size()-1 {
			e.norm(be, outs[i], x, e.finalNorm)
		}
		return nil
	})
	for i := 0; err == nil && i < len(outs); i++ {
		err = g.Broadcast("embeddings", g.Size()-1, outs[i])
	}
	if err != nil {
		return nil, fmt.Errorf("encode text: %w", err)
	}
	return rows, nil
}
