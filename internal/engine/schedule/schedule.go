package schedule

import (
	"context"
	"fmt"
	"time"

	"latentbeam/internal/devices"
	"latentbeam/internal/engine/memory"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/layout"
)

// Clock is the time of a schedule: the machine's clock in a run, a simulated one in a plan.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f after d, unless stop is called first.
	AfterFunc(d time.Duration, f func()) (stop func())
}

// Schedule gives the devices of a pool to the batches of a job. It is safe for concurrent use.
type Schedule struct {
	Steps    []stages.Step
	Pool     devices.Pool
	MaxBatch int            // upper bound on a batch; 0: the memory plan alone decides
	Learned  memory.Learned // memory that batches needed

	sampling int             // index of the sampling step; -1: none
	stopped  context.Context // canceled by Stop
	stop     context.CancelFunc
	turns    turns
	tail     tail
	forecast forecast
}

// New returns a schedule of these steps on the devices of pool.
func New(clock Clock, steps []stages.Step, pool devices.Pool) *Schedule {
	s := &Schedule{Steps: steps, Pool: pool, sampling: samplingStage(steps)}
	s.turns.clock = clock
	s.stopped, s.stop = context.WithCancel(context.Background())
	s.forecast.open(NewPredictions())
	return s
}

// Recall loads the memory facts of an earlier run.
func (s *Schedule) Recall(facts []memory.Fact) { s.Learned.Recall(facts, s.Pool.Memory().Limit) }

// Reset starts a pass over the input. expected are the rows that the pass will probably compute.
func (s *Schedule) Reset(expected []Expected) { s.tail.reset(expected) }

// Add records a row that was added to its bucket.
func (s *Schedule) Add(b schemas.Bucket, row *schemas.PromptRow) { s.tail.add(b, row) }

// Dispatch records that a bucket has emitted a batch of this many rows like row.
func (s *Schedule) Dispatch(b schemas.Bucket, row *schemas.PromptRow, rows int) {
	s.tail.dispatch(b, row, rows)
}

// CloseInput records that no more rows will come.
func (s *Schedule) CloseInput() {
	s.tail.close()
	s.turns.grant(s.Pool) // a batch may have waited for rows that were expected
}

// Arrive records that a batch has reached a stage. A batch of failed rows only needs no devices, but other batches may have
// waited for it.
func (s *Schedule) Arrive(stage int, b *stages.Batch) {
	row := &b.Elements[0].Row
	s.tail.arrive(stage, schemas.BucketOf(*row), row, len(b.Elements))
	if len(b.Live()) == 0 {
		s.turns.grant(s.Pool)
	}
}

// Stop stops the schedule: no more rows come and no more batches start.
func (s *Schedule) Stop() {
	s.stop()
	s.turns.grant(s.Pool) // batches no longer wait for more rows
}

// Stopping reports whether Stop was called.
func (s *Schedule) Stopping() bool { return s.stopped.Err() != nil }

// Stopped returns a context that Stop cancels.
func (s *Schedule) Stopped() context.Context { return s.stopped }

// Room reports whether a stage that holds this many batches and elements may accept one more batch, of rows like row. A stage that
// combines batches may hold the elements of two turns, so that the next turn gathers while the current one runs.
func (s *Schedule) Room(stage, batches, elements int, row *schemas.PromptRow) bool {
	return batches < s.Limit(stage) || elements < 2*s.step(stage).together(row)
}

// Most returns the largest number of batches that Room allows a stage.
func (s *Schedule) Most(stage int) int { return s.Limit(stage) + 2*maxTogether }

// Limit returns how many batches a stage may hold, whatever their size: one more than devices, so that no device
// waits. A stage that can use sets of devices may hold twice as many.
func (s *Schedule) Limit(stage int) int {
	if s.Steps[stage].Capabilities().Spread != nil {
		return 2*s.Pool.Size() + 1
	}
	return s.Pool.Size() + 1
}

// BatchSize returns how many elements like row fit in memory in every stage.
func (s *Schedule) BatchSize(row *schemas.PromptRow) (int, error) {
	limit := s.MaxBatch
	for i := range s.Steps {
		can := s.Steps[i].Capabilities()
		if most := can.MaxBatch; most > 0 && (limit == 0 || most < limit) {
			limit = most
		}
		if can.Group != nil {
			if most := can.Group(row); most > 0 && (limit == 0 || most < limit) {
				limit = most
			}
		}
	}
	return layout.BatchSize(s.Pool.Memory(), limit, func(n int) (int64, error) {
		var most int64
		for i := range s.Steps {
			f := s.step(i)
			need, err := s.forecast.need(f.key(row), f.Step, row, n)
			if err != nil {
				return 0, fmt.Errorf("%s: %w", f.Name, err)
			}
			if need = s.Learned.Correct(f.Name, row, need); s.Learned.Fits(f.Name, row, n) < n {
				return s.Pool.Memory().Limit + 1, nil
			}
			devices, _ := f.least(row)
			most = max(most, shared(need, devices/f.Capabilities().Shards())) // each shard computes the whole batch
		}
		return most, nil
	})
}

// LookBatch returns the batch size for finished elements that steps look at: most, or less if a step or the job has a lower limit.
func (s *Schedule) LookBatch(most int) int {
	if s.MaxBatch > 0 {
		most = min(most, s.MaxBatch)
	}
	for i := range s.Steps {
		if n := s.Steps[i].Capabilities().MaxBatch; s.Steps[i].MeasuresOnly && n > 0 {
			most = min(most, n)
		}
	}
	return most
}

// Acquire waits until the batch of a turn may lease devices, or until another batch includes it. It returns ErrNoDevice
// if all devices are lost. The caller must call Release.
func (s *Schedule) Acquire(ctx context.Context, t *Turn) (*Grant, error) {
	return s.turns.acquire(ctx, s.Pool, t)
}
