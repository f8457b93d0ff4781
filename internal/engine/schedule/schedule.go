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

// Clock is the time of a schedule: the machine's in a run, a played one in a plan.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f in d from now, unless stop is called before.
	AfterFunc(d time.Duration, f func()) (stop func())
}

// Schedule gives the devices of a pool to the batches of a job. It is safe for concurrent use.
type Schedule struct {
	Steps    []stages.Step
	Pool     devices.Pool
	MaxBatch int            // upper bound on a batch; 0: the memory plan alone decides
	Learned  memory.Learned // what batches have taught of their memory

	sampling int             // index of the step that samples, -1: none does
	stopped  context.Context // canceled by Stop
	stop     context.CancelFunc
	turns    turns
	tail     tail
	forecast forecast
}

// New returns the schedule of these steps on these devices, by the time of the clock.
func New(clock Clock, steps []stages.Step, pool devices.Pool) *Schedule {
	s := &Schedule{Steps: steps, Pool: pool, sampling: samplingStage(steps)}
	s.turns.clock = clock
	s.stopped, s.stop = context.WithCancel(context.Background())
	s.forecast.open(NewPredictions())
	return s
}

// Recall takes over what an earlier run learned of memory.
func (s *Schedule) Recall(facts []memory.Fact) { s.Learned.Recall(facts, s.Pool.Memory().Limit) }

// Reset begins a pass over the input, of which so many rows are expected.
func (s *Schedule) Reset(expected []Expected) { s.tail.reset(expected) }

// Add notes a row that has come to its bucket.
func (s *Schedule) Add(b schemas.Bucket, row *schemas.PromptRow) { s.tail.add(b, row) }

// Dispatch notes a batch of so many rows like row that a bucket lets go.
func (s *Schedule) Dispatch(b schemas.Bucket, row *schemas.PromptRow, rows int) {
	s.tail.pass(b, row, rows)
}

// CloseInput notes that no row comes any more.
func (s *Schedule) CloseInput() {
	s.tail.close()
	s.turns.grant(s.Pool) // a batch may have waited for rows that were expected
}

// Arrive notes that a batch has come to a stage. One of failed rows takes no turn, but others may have waited
// for it.
func (s *Schedule) Arrive(stage int, b *stages.Batch) {
	row := &b.Elements[0].Row
	s.tail.arrive(stage, schemas.BucketOf(*row), row, len(b.Elements))
	if len(b.Live()) == 0 {
		s.turns.grant(s.Pool)
	}
}

// Stop says that no more rows come and no more batches begin.
func (s *Schedule) Stop() {
	s.stop()
	s.turns.grant(s.Pool) // nobody waits for rows that do not come
}

// Stopping reports whether Stop was called.
func (s *Schedule) Stopping() bool { return s.stopped.Err() != nil }

// Stopped is canceled by Stop, for what is to happen then.
func (s *Schedule) Stopped() context.Context { return s.stopped }

// Room reports whether a stage that has so many batches and elements may have one more batch, of rows like row. One that takes
// batches together has those of two turns, so that they gather for the next while others leave.
func (s *Schedule) Room(stage, batches, elements int, row *schemas.PromptRow) bool {
	return batches < s.Limit(stage) || elements < 2*s.step(stage).together(row)
}

// Most bounds the batches that Room allows a stage.
func (s *Schedule) Most(stage int) int { return s.Limit(stage) + 2*maxTogether }

// Limit is how many batches may be in a stage, however many elements they have: one more than there are devices, so that
// none waits, and where batches can be taken together twice as many.
func (s *Schedule) Limit(stage int) int {
	if s.Steps[stage].Capabilities().Spread != nil {
		return 2*s.Pool.Size() + 1
	}
	return s.Pool.Size() + 1
}

// BatchSize asks the memory plan how many elements like row fit the hungriest stage.
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
			most = max(most, shared(need, devices/f.Capabilities().Shards())) // each shard works on all of the batch
		}
		return most, nil
	})
}

// LookBatch is how many finished elements go together to the steps that look: most, or fewer where a step or the job takes fewer.
func (s *Schedule) LookBatch(most int) int {
	if s.MaxBatch > 0 {
		most = min(most, s.MaxBatch)
	}
	for i := range s.Steps {
		if n := s.Steps[i].Capabilities().MaxBatch; s.Steps[i].Looks && n > 0 {
			most = min(most, n)
		}
	}
	return most
}

// Acquire waits until the batch of a turn may lease devices, or until another batch takes it along. ErrNoDevice says
// that all devices are gone. Release gives the devices back.
func (s *Schedule) Acquire(ctx context.Context, t *Turn) (*Grant, error) {
	return s.turns.acquire(ctx, s.Pool, t)
}
