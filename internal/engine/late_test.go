package engine

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"latentbeam/internal/engine/schedule"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// minute is the number of a published shape that takes one device a minute or two.
const minute = 4

// TestNoOneWaitsForADeviceThatIsStuck: at the end of a job, batches wait for devices that are expected to become free soon. If a device
// does not become free, the rows still take at most four times the time of a row alone.
func TestNoOneWaitsForADeviceThatIsStuck(t *testing.T) {
	w := newWorld(t)
	for _, rows := range []int{1, 2, 7} {
		synctest.Test(t, func(t *testing.T) {
			e := w.stuckEngine(t, rows)
			began, done := time.Now(), 0
			g, err := e.Schedule.Acquire(t.Context(), e.Schedule.Turn(0, []*stages.Element{{Row: row(99, minute)}}, schedule.Ask{Cap: 1})) // its duration is not predicted
			if err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(24*time.Hour, func() { e.Schedule.Release(g, nil) })
			e.play(t, slices.Repeat([]int{minute}, rows), func(b *stages.Batch) { done += len(b.Elements) })
			if took := time.Since(began); done != rows || took.Seconds() > 4*w.seconds(minute, 1, []int{0}, false) {
				t.Errorf("%d rows beside a device that is stuck: %d are done after %v", rows, done, took)
			}
		})
	}
}

// TestNoOneWaitsForARowThatIsStuck: a batch waits to be combined with rows that are expected soon, but not longer for a row that does not
// arrive.
func TestNoOneWaitsForARowThatIsStuck(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		e := w.stuckEngine(t, 2)
		f, out := station(t, e, 0), &collector{}
		f.one(t, out, 0)
		time.Sleep(time.Duration(4 * w.seconds(minute, 1, []int{0}, false) * float64(time.Second)))
		if len(f.results) != 1 {
			t.Error("a row still waits for another row that may never arrive")
		}
		f.one(t, out, 1)
		f.end(t, out.emit)
		if len(out.elements) != 2 {
			t.Errorf("%d of 2 rows came out", len(out.elements))
		}
	})
}

// one submits row number i to the station.
func (s *Station) one(t *testing.T, out *collector, i int) {
	el := &stages.Element{Row: row(i, minute)}
	s.engine.Schedule.Add(schemas.BucketOf(el.Row), &el.Row)
	s.engine.Schedule.Dispatch(schemas.BucketOf(el.Row), &el.Row, 1)
	if err := s.Submit(&stages.Batch{Elements: []*stages.Element{el}}, out.emit); err != nil {
		t.Fatal(err)
	}
}

// stuckEngine returns an engine that expects the given number of rows and has measured the time of one row.
func (w *world) stuckEngine(t *testing.T, rows int) *Engine {
	denoise := step("denoise", fakeStage{})
	denoise.Stage = sleeper{w: w}
	e := newEngine(t, 8, denoise)
	e.Schedule.Pool = &simulated{w: w}
	f, out := station(t, e, 0), &collector{}
	f.one(t, out, 0)
	f.end(t, out.emit)
	e.Schedule.Reset([]schedule.Expected{{Row: row(0, minute), Rows: rows}})
	return e
}
