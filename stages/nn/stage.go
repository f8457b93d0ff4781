package nn

import (
	"fmt"

	"latentbeam/internal/plan/weights"
)

// Stage is one rank of pipeline parallelism: it has a run of a model's blocks, and of what belongs to no
// block everything. The zero value is a rank alone.
type Stage struct{ Rank, Ways int }

// Stage returns the same weights for one rank of pipeline parallelism.
func (w *Weights) Stage(s Stage) *Weights {
	return &Weights{prefix: w.prefix, as: w.as, cut: w.cut, stage: s, account: w.account}
}

// Blocks returns this rank's run of n like blocks, named by the format: runs differ by one at most. The
// others need not be loaded.
func (w *Weights) Blocks(n int, format string) weights.Range {
	if w.stage.Ways <= 1 {
		return weights.Range{Hi: n}
	}
	if w.stage.Ways > n {
		w.fault("not cut", w.prefix+"*",
			fmt.Sprintf("%d ranks of pipeline parallelism for %d blocks", w.stage.Ways, n))
		return weights.Range{Hi: n}
	}
	mine := weights.Range{Lo: w.stage.Rank * n / w.stage.Ways, Hi: (w.stage.Rank + 1) * n / w.stage.Ways}
	for i := range n {
		if i < mine.Lo || i >= mine.Hi {
			w.skipped = append(w.skipped, w.prefix+fmt.Sprintf(format, i)+".*")
		}
	}
	return mine
}
