package pipelines

import (
	"context"
	"time"

	"latentbeam/pipelines/planning"
)

// maxMends limits how often a run repairs damage that it finds only when it writes its report.
const maxMends = 3

// run is Run without the join of shards. If writing the report shows that the ledger or a table is damaged, run
// computes the lost rows and writes the report again.
func (j *Job) run(ctx context.Context, started func(planning.Plan)) (Result, error) {
	began := time.Now()
	r, err := j.runOnce(ctx, began, started)
	for range maxMends {
		if !r.lost {
			break
		}
		if err := j.output.Mend(ctx, r.damaged); err != nil {
			return r, err
		}
		again, againErr := j.runOnce(ctx, began, nil)
		if again.NothingToDo { // the rows have been computed meanwhile
			break
		}
		again.Plan, again.Skipped = r.Plan, r.Skipped
		r, err = again, againErr
	}
	return r, err
}
