package weights

import (
	"fmt"

	"latentbeam/kernels"
	"latentbeam/stages/sequence"
)

// PipelineStage is one rank of pipeline parallelism. It has a range of the model's blocks, and all weights that belong to
// no block. The zero value is a rank alone.
type PipelineStage struct {
	Rank, Ways int
	Run        sequence.Range // of blocks; empty: runs differ by one block at most
}

// Stage returns the same weights for one rank of pipeline parallelism.
func (w *Weights) Stage(s PipelineStage) *Weights {
	stage := *w
	stage.stage = s
	return &stage
}

// First and Last report whether this rank has the beginning and the end of the blocks.
func (s PipelineStage) First() bool { return s.Rank == 0 }

// Last is described at First.
func (s PipelineStage) Last() bool { return s.Rank >= s.Ways-1 }

// AtFirst and AtLast load the named tensor where this rank has the beginning, or the end, of the blocks;
// elsewhere they give none.
func (w *Weights) AtFirst(name string, shape ...int) kernels.Tensor {
	return w.at(w.stage.First(), name, shape)
}

// AtLast is described at AtFirst.
func (w *Weights) AtLast(name string, shape ...int) kernels.Tensor {
	return w.at(w.stage.Last(), name, shape)
}

func (w *Weights) at(here bool, name string, shape []int) kernels.Tensor {
	if here {
		return w.Tensor(name, shape...)
	}
	w.skipped = append(w.skipped, w.prefix+name)
	return kernels.Tensor{}
}

// Block returns the tensors of one of the blocks that follow each other, named by the format and its number:
// where not all blocks stay in memory these come and go together (see Flow).
func (w *Weights) Block(i int, format string) *Weights {
	b := w.Subf(format, i)
	b.block, b.kind, b.inside = i+1, format, len(b.prefix)
	return b
}

// Blocks returns this rank's run of n like blocks, named by the format. The others need not be loaded.
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
