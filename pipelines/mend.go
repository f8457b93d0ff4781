package pipelines

import (
	"context"
	"time"

	"latentbeam/pipelines/planning"
)

// maxMends bounds how often a run computes what it found damaged only while it wrote its report.
const maxMends = 3

// run is Run of this shard alone. Where the ledger turns out to be damaged as the report is made of it, the rows that
// this costs are computed and the report is written again.
func (j *Job) run(ctx context.Context, started func(planning.Plan)) (Result, error) {
	began := time.Now()
	r, err := j.once(ctx, began, started)
	for range maxMends {
		if !r.lost {
			break
		}
		if err := j.output.Mend(ctx, r.damaged); err != nil {
			return r, err
		}
		again, againErr := j.once(ctx, began, nil)
		if again.NothingToDo { // it was computed on the way
			break
		}
		again.Plan, again.Skipped = r.Plan, r.Skipped
		r, err = again, againErr
	}
	return r, err
}
