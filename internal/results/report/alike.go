package report

import (
	"context"
	"iter"

	"latentbeam/internal/storage/ledger"
)

// judged yields every row with its outcome. A row that looks like an earlier one which is kept is left out: it comes as
// failed, with the reason in twin. What is kept follows from the input's order and the readings alone, and from no later
// row. So shards, batches and the order of computing decide nothing, and each row left out has a kept one that it looks
// like, while no two kept ones look alike.
func (j *Job) judged(ctx context.Context) iter.Seq2[outcome, error] {
	if j.Alike == nil {
		return j.walk(ctx)
	}
	return func(yield func(outcome, error) bool) {
		kept := newLookalikes(j.Alike.Distance)
		for o, err := range j.walk(ctx) {
			if err == nil && o.status == ledger.Done {
				if err = o.parse(); err == nil {
					o.twin = kept.Judge(&o.Row, o.result.Readings[j.Alike.Reading])
				}
			}
			if o.twin != "" {
				o.status = ledger.Failed
			}
			if !yield(o, err) || err != nil {
				return
			}
		}
	}
}
