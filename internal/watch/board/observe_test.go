package board

import (
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"latentbeam/internal/watch/runfiles"
)

// newBoard returns a board and a function that moves the board's clock forward.
func newBoard(stages, devices []string) (*Board, func(time.Duration)) {
	b := New(stages, devices)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	b.now = func() time.Time { return now }
	b.started = now
	for _, d := range b.devices {
		d.since = now
	}
	return b, func(d time.Duration) { now = now.Add(d) }
}

// near fails the test if got and want differ by more than a millionth.
func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-6*math.Max(1, math.Abs(want)) {
		t.Errorf("%s: got %g, want %g", what, got, want)
	}
}

// TestETA: the remaining time is computed by shape. As long as no row of a shape is finished, its time is predicted from another shape by the
// ratio of their weights.
func TestETA(t *testing.T) {
	b, pass := newBoard([]string{"denoise"}, []string{"cpu:0"})
	b.Expect([]ShapeWork{{"small", 10, 1}, {"large", 10, 8}}) // 10 rows each; a large row has 8 times the weight
	if eta := b.Facts().ETA; eta != 0 {
		t.Errorf("no batch has run, ETA %g", eta)
	}
	w := b.Work("denoise", "small", 10, []string{"a"}, []string{"cpu:0"})
	pass(20 * time.Second)
	w.Step(5, 10) // 4 s a row
	near(t, "ETA by steps", b.Facts().ETA, 20+10*8*4)
	pass(20 * time.Second)
	w.Finish(nil)
	for range 10 {
		b.Settled("small", "", "")
	}
	f := b.Facts()
	near(t, "ETA by weight", f.ETA, 10*8*4)
	near(t, "rate of small rows", f.Rates[0].PerMinute, 15)
	near(t, "ETA of the small rows, which are done", f.Rates[0].ETA, 0)
	w = b.Work("denoise", "large", 2, nil, []string{"cpu:0"})
	pass(20 * time.Second)
	w.Finish(nil) // 10 s a row, while the weights predicted 32 s
	near(t, "ETA by rows", b.Facts().ETA, 80)
	b.Work("denoise", "large", 8, nil, []string{"cpu:0"})
	pass(30 * time.Second)
	near(t, "ETA while the last 8 rows are at work", b.Facts().ETA, 50)
}

// TestETAOfStagesToCome: the cost of a stage that has not run is its planned cost, scaled by the slowdown of other stages. The cost of a
// shape that has not run is scaled by the ratio of the planned costs of both shapes.
func TestETAOfStagesToCome(t *testing.T) {
	b, pass := newBoard([]string{"encode_text", "denoise", "decode_vae"}, []string{"cpu:0"})
	b.Expect([]ShapeWork{{"small", 4, 1}, {"large", 2, 2}})
	b.Foresee([]Foreseen{{"denoise", "small", 2}, {"decode_vae", "small", 1}, {"denoise", "large", 20}, {"decode_vae", "large", 5}})
	if eta := b.Facts().ETA; eta != 0 {
		t.Errorf("no batch has run, ETA %g", eta)
	}
	w := b.Work("denoise", "small", 4, nil, []string{"cpu:0"})
	pass(8 * time.Second)
	w.Step(5, 10) // 4 s a row, twice the planned cost
	near(t, "ETA by steps", b.Facts().ETA, 8+4*2+2*40+2*10)
	pass(8 * time.Second)
	w.Finish(nil)
	w = b.Work("decode_vae", "small", 4, nil, []string{"cpu:0"})
	pass(12 * time.Second)
	w.Finish(nil) // 3 s a row, three times the planned cost
	for range 4 {
		b.Settled("small", "", "")
	}
	near(t, "ETA of another shape", b.Facts().ETA, 2*40+2*15)
}

// TestTwoDevices: the remaining time is the work that is left, divided by two devices. It is not known while a stage has not run.
func TestTwoDevices(t *testing.T) {
	b, pass := newBoard([]string{"denoise", "decode"}, []string{"cpu:0", "cpu:1"})
	b.Expect([]ShapeWork{{"s", 6, 1}})
	w := b.Work("denoise", "s", 2, nil, []string{"cpu:0", "cpu:1"})
	pass(10 * time.Second)
	w.Finish(nil)
	if eta := b.Facts().ETA; eta != 0 {
		t.Errorf("decode has not run, ETA %g", eta)
	}
	b.Settled("s", "ROW/denoise", "a NaN")
	near(t, "ETA", b.Facts().ETA, 4*10/2) // 4 rows are left; 2 devices took 10 s for 2 rows, so a row takes 10 s of one device
	d := b.Work("decode", "s", 2, nil, []string{"cpu:1"})
	pass(2 * time.Second)
	d.Finish(nil)
	near(t, "ETA with the second stage", b.Facts().ETA, (4*10+4*1)/2.)
	f := b.Facts()
	near(t, "busy of the first", f.Devices[0].Busy, 10)
	near(t, "busy of the second", f.Devices[1].Busy, 12)
	near(t, "busy of decode", f.Stages[1].Busy, 2)
}

// TestPublishing: if publishing is slower than the devices, it determines the remaining time. Time in which two publishers work
// counts once.
func TestPublishing(t *testing.T) {
	b, pass := newBoard([]string{"denoise"}, []string{"cpu:0"})
	b.Expect([]ShapeWork{{"s", 100, 1}})
	w := b.Work("denoise", "s", 20, nil, []string{"cpu:0"})
	pass(2 * time.Second)
	w.Finish(nil)
	began := b.now()
	pass(10 * time.Second)
	b.Published(began, 10)
	b.Published(began, 10) // a second publisher, at the same time
	for range 20 {
		b.Settled("s", "", "")
	}
	near(t, "ETA", b.Facts().ETA, 80*0.5) // 20 rows were published in 10 s, 80 are left
	began = b.now()
	w = b.Work("denoise", "s", 10, nil, []string{"cpu:0"})
	pass(60 * time.Second) // the device became the slower one
	w.Finish(nil)
	b.Published(began.Add(59*time.Second), 10)
	near(t, "ETA of a slow device", b.Facts().ETA, 70*62/30.) // the device took 62 s for 30 rows, 70 are left
}

// TestLate: while a batch is overdue, the remaining time is not known.
func TestLate(t *testing.T) {
	b, pass := newBoard([]string{"exec"}, []string{"cpu:0"})
	b.Expect([]ShapeWork{{"s", 40, 1}})
	w := b.Work("exec", "s", 10, nil, []string{"cpu:0"})
	pass(5 * time.Second)
	w.Finish(nil)
	b.Settled("s", "", "")
	w = b.Work("exec", "s", 10, nil, []string{"cpu:0"})
	pass(9 * time.Second)
	near(t, "ETA of a batch that may end at any moment", b.Facts().ETA, 20*0.5)
	pass(60 * time.Second)
	if f := b.Facts(); f.ETA != 0 {
		t.Errorf("the ETA is %g while a batch is far overdue, want 0 (not known)", f.ETA)
	}
	w.Finish(nil)
	b.Settled("s", "", "")
	near(t, "ETA after the batch has ended", b.Facts().ETA, 20*74/20.) // 20 rows took 5 s + 69 s, 20 are left
}

// TestNoProgress: unusable, shared and skipped rows do not count as progress, but a failed row does.
func TestNoProgress(t *testing.T) {
	b, _ := newBoard([]string{"denoise"}, []string{"cpu:0"})
	b.Expect([]ShapeWork{{"s", 2, 1}})
	for range 30 {
		b.Bad("ROW/read", "t.csv:3: read: no prompt")
	}
	b.Shared()
	b.Skipped()
	f := b.Facts()
	if f.Rows != (runfiles.Rows{Total: 2, Bad: 30, Shared: 1, Skipped: 1}) {
		t.Errorf("got %+v, want 30 bad, 1 shared and 1 skipped of 2", f.Rows)
	}
	b.Settled("s", "ROW/guard", "black")
	f = b.Facts()
	if f.Rows.Failed != 1 || !strings.Contains(f.First, "t.csv:3") || b.Counts().Failures["ROW/read"] != 30 {
		t.Errorf("got %+v, first failure %q, counts %v; want 1 failed, t.csv:3, 30 of ROW/read", f.Rows, f.First, b.Counts().Failures)
	}
}

// TestSpans: sinks receive every span, but steps and exchanges only with Details. A step of several ranks is one span.
func TestSpans(t *testing.T) {
	b, pass := newBoard([]string{"denoise"}, []string{"cpu:0"})
	var all, few []Span // what a sink with Details receives, and one without
	b.AddSink(Sink{Record: func(s Span) { few = append(few, s) }})
	if b.WantsDetails() {
		t.Error("WantsDetails is true, but no sink has Details")
	}
	b.AddSink(Sink{Record: func(s Span) { all = append(all, s) }, Details: true})
	wait := b.Wait("denoise", "s", 1, []string{"a"})
	pass(time.Second)
	if f := b.Facts(); len(f.Batches) != 1 || f.Batches[0].Device != "" {
		t.Errorf("while a batch waits: got %+v, want one batch without a device", f.Batches)
	}
	wait.Finish(nil)
	w := b.Work("denoise", "s", 1, []string{"a"}, []string{"cpu:0"})
	pass(2 * time.Second)
	w.Step(1, 2)
	w.Step(1, 2) // of another rank
	pass(3 * time.Second)
	w.Step(2, 2)
	if f := b.Facts(); f.Batches[0].Step != 2 || f.Devices[0].Stage != "denoise" {
		t.Errorf("while a batch is at work: got %+v, want step 2 and a device in denoise", f)
	}
	w.Finish(errors.New("no memory"))
	var kinds []string
	for _, s := range all {
		kinds = append(kinds, string(s.Kind))
	}
	if got := strings.Join(kinds, " "); got != "wait step step work" || len(few) != 2 {
		t.Errorf("a sink with details got %q, one without got %d spans", got, len(few))
	}
	near(t, "second step", all[2].Seconds(), 3)
	near(t, "work", all[3].Seconds(), 5)
	if all[3].Error != "no memory" || b.Facts().Stages[0].Rows != 0 {
		t.Errorf("a batch that failed: got %+v and %d rows of the stage, want its error and 0 rows", all[3], b.Facts().Stages[0].Rows)
	}
}

// TestManyGoroutines calls a board from 8 goroutines, for the race detector.
func TestManyGoroutines(t *testing.T) {
	b := New([]string{"s"}, []string{"d"})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				w := b.Work("s", "x", 1, nil, []string{"d"})
				w.Step(1, 2)
				_ = b.Facts()
				w.Finish(nil)
				b.Settled("x", "", "")
			}
		})
	}
	wg.Wait()
	if f := b.Facts(); f.Rows.Done != 800 || f.Stages[0].Batches != 800 || len(f.Batches) != 0 {
		t.Errorf("got %+v, want 800 rows done in 800 batches", f)
	}
}
