package schedule

import (
	"testing"

	"latentbeam/schemas"
	"latentbeam/stages"
)

// TestGather: waiting batches of one shape are divided evenly among the free devices, up to the limit of a batch. Batches of other shapes
// are not combined with them, and a batch that is tried again alone stays alone.
func TestGather(t *testing.T) {
	text := fakeStage{stages.Capabilities{Together: func(*schemas.PromptRow) int { return 6 }}}
	s := New(testClock{}, []stages.Step{{Name: "text", Stage: text}}, newFakePool(3))
	turn := func(height int, a Ask) *Turn {
		return s.Turn(0, []*stages.Element{{Row: schemas.PromptRow{Height: height}}}, a)
	}
	var queue []*Turn
	for range 7 {
		queue = append(queue, turn(64, Ask{}))
	}
	queue = append(queue, turn(32, Ask{}))
	for _, c := range []struct {
		name string
		most int
		free []float64
		mine *Turn
		want int
	}{
		{"one device is free", 0, []float64{0, 5, 5}, queue[0], 6},
		{"two devices are free", 0, []float64{0, 0, 5}, queue[0], 4},
		{"the user limits batches to two rows", 2, []float64{0, 5, 5}, queue[0], 2},
		{"another shape", 0, []float64{0, 5, 5}, queue[7], 1},
		{"tried again alone", 0, []float64{0, 5, 5}, turn(64, Ask{Cap: 1}), 1},
	} {
		s.MaxBatch = c.most
		v := view{rates: []float64{1, 1, 1}, free: c.free, queue: queue}
		if _, got := c.mine.choose(v); got != c.want {
			t.Errorf("%s: %d rows, want %d", c.name, got, c.want)
		}
	}
}
