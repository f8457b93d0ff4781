package weights

import (
	"fmt"

	"latentbeam/kernels"
	"latentbeam/stages/sequence"
)

// PipelineStage is one rank of pipeline parallelism. It has a range of the model's blocks, and all weights that belong to no
// block. The zero value is a single rank.
type PipelineStage struct {
	Rank, Ways int
	Run        sequence.Range // range of blocks; empty: runs differ by at most one block
}

// Stage returns the same weights for one rank of pipeline parallelism.
func (w *Weights) Stage(s PipelineStage) *Weights {
	stage := *w
	stage.stage = s
	return &stage
}

// First and Last report whether this rank has the first and the last blocks.
func (s PipelineStage) First() bool { return s.Rank == 0 }

// Last is described with First.
func (s PipelineStage) Last() bool { return s.Rank >= s.Ways-1 }

// AtFirst and AtLast load the named tensor if this rank has the first, or the last, blocks; otherwise they return the zero
// Tensor.
func (w *Weights) AtFirst(name string, shape ...int) kernels.Tensor {
	return w.loadIf(w.stage.First(), name, shape)
}

// AtLast is described with AtFirst.
func (w *Weights) AtLast(name string, shape ...int) kernels.Tensor {
	return w.loadIf(w.stage.Last(), name, shape)
}

func (w *Weights) loadIf(here bool, name string, shape []int) kernels.Tensor {
	if here {
		return w.Tensor(name, shape...)
	}
	w.skipped = append(w.skipped, w.prefix+name)
	return kernels.Tensor{}
}

// Block returns the tensors of block i, named by the format and its number. If not all blocks are resident, the tensors of a
// block are loaded and released together (see Flow).
func (w *Weights) Block(i int, format string) *Weights {
	b := w.Subf(format, i)
	b.block, b.kind, b.inside = i+1, format, len(b.prefix)
	return b
}

// Blocks returns this rank's range of n equal blocks, named by the format. The other blocks need not be loaded.
func (w *Weights) Blocks(n int, format string) sequence.Range {
	if w.stage.Ways <= 1 {
		return sequence.Range{Hi: n}
	}
	if w.stage.Ways > n {
		w.fault("not cut", w.prefix+"*",
			fmt.Sprintf("%d ranks of pipeline parallelism for %d blocks", w.stage.Ways, n))
		return sequence.Range{Hi: n}
	}
	mine := sequence.Range{Lo: w.stage.Rank * n / w.stage.Ways, Hi: (w.stage.Rank + 1) * n / w.stage.Ways}
	if w.stage.Run.Len() > 0 {
		mine = w.stage.Run
	}
	if w.flow != nil {
		w.flow.first = mine.Lo
	}
	for i := range n {
		if i < mine.Lo || i >= mine.Hi {
			w.skipped = append(w.skipped, w.prefix+fmt.Sprintf(format, i)+".*")
		}
	}
	return mine
}
