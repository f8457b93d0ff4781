package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"latentbeam/internal/storage/ledger"
	"latentbeam/stages"
)

// way is an engine that denoises for 10 s, decodes for 1 s and encodes for 1 s, and what it did when.
type way struct {
	*Engine
	mu       sync.Mutex
	denoised []*stages.Element
	most     int // rows that were denoised and not published when another batch began to be denoised
	began    int // rows that began to be denoised
	encoded  int
	ahead    int // the most that had begun and were not encoded
}

// newWay returns one on so many devices.
func newWay(t *testing.T, workers int) *way {
	w := &way{}
	sleep := func(d time.Duration) fakeStage {
		return fakeStage{run: func(_ context.Context, batch []*stages.Element) error {
			time.Sleep(d)
			for _, el := range batch {
				latent(el)
			}
			return nil
		}}
	}
	decode := step("decode", sleep(time.Second))
	encode := step("encode", fakeStage{run: func(_ context.Context, batch []*stages.Element) error {
		time.Sleep(time.Second)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.encoded += len(batch)
		return nil
	}})
	decode.Spec.In, encode.Spec.In = stages.KindLatents, stages.KindLatents
	denoise := step("denoise", fakeStage{run: func(_ context.Context, batch []*stages.Element) error {
		w.note(len(batch))
		time.Sleep(10 * time.Second)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.denoised = append(w.denoised, batch...)
		for _, el := range batch {
			latent(el)
		}
		return nil
	}})
	denoise.Spec.Params = append(denoise.Spec.Params, stages.ParamSteps)
	w.Engine = newEngine(t, workers, step("text", sleep(time.Second)), denoise, decode, encode)
	return w
}

// note counts what is denoised and not with the publisher at the start of a batch.
func (w *way) note(rows int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.began += rows
	w.ahead = max(w.ahead, w.began-w.encoded)
	unpublished := 0
	for _, el := range w.denoised {
		if _, status, err := w.Ledger.Lookup(ledger.Key(el.Key)); status == ledger.Absent || err != nil {
			unpublished++
		}
	}
	w.most = max(w.most, unpublished)
}

// TestFirstThingsOutFirst: what is denoised is decoded and published before more is denoised. A device begins another
// batch at the earliest when the last one is with the publisher, which needs a second at most.
func TestFirstThingsOutFirst(t *testing.T) {
	for _, c := range []struct{ workers, rows int }{{1, 12}, {3, 31}, {8, 60}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWay(t, c.workers)
			began := time.Now()
			if err := w.Pass(t.Context(), func(ctx context.Context) error { return w.bundle1(ctx, c.rows) }); err != nil {
				t.Fatal(err)
			}
			took := time.Since(began)
			// Each device holds one row that the group commit has not taken to the disk yet, at most.
			if w.Ledger.Len() != c.rows || w.most > c.workers || w.ahead > c.workers {
				t.Errorf("%d devices: %d rows of %d done, up to %d denoised and not published as another began, up to %d begun "+
					"and not encoded", c.workers, w.Ledger.Len(), c.rows, w.most, w.ahead)
			}
			// Devices are never idle for it: 13 s a row, and the end, where some have nothing left.
			if most := time.Duration((c.rows+c.workers-1)/c.workers*13+4) * time.Second; took > most {
				t.Errorf("%d devices: %v, want at most %v", c.workers, took, most)
			}
			t.Logf("%d devices: %d rows in %v, at most %d denoised rows were not on disk", c.workers, c.rows, took, w.most)
		})
	}
}

// bundle1 takes rows through one fused bundle, a row a batch, as a runner does.
func (w *way) bundle1(ctx context.Context, rows int) error {
	publisher := w.Publisher(ctx)
	emit := func(b *stages.Batch) { w.Fail(publisher.Add(b)) }
	var ends []func() error
	for i := range slices.Backward(w.Schedule.Steps) {
		s, next := w.Station(ctx, i), emit
		ends = append(ends, func() error { return s.Close(next) })
		emit = func(b *stages.Batch) { w.Fail(s.Submit(b, next)) }
	}
	for i := range rows {
		emit(&stages.Batch{Elements: w.elements(fmt.Sprint(i))})
	}
	var err error
	for _, end := range slices.Backward(ends) {
		err = errors.Join(err, end())
	}
	return errors.Join(err, publisher.Close())
}

// TestLostBatchesHoldNobody: batches of a bundle that nobody finishes do not keep others from being denoised.
func TestLostBatchesHoldNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWay(t, 1)
		s := w.Station(t.Context(), 1)
		lost := &stages.Batch{Elements: w.elements("lost")}
		if err := s.Submit(lost, func(*stages.Batch) {}); err != nil { // and its bundle never asks for the result
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if err := w.bundle1(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		if w.Ledger.Len() != 3 {
			t.Errorf("%d rows done", w.Ledger.Len())
		}
	})
}

// TestOtherBundlesAreNotWaitedFor: where the next stage belongs to another bundle, it gets the batches only after this
// one has ended.
func TestOtherBundlesAreNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWay(t, 1)
		s, out := w.Station(t.Context(), 1), &collector{}
		began := time.Now()
		for i := range 5 {
			s.give(t, out.emit, fmt.Sprint(i))
		}
		s.end(t, out.emit)
		if took := time.Since(began); took != 50*time.Second || len(out.elements) != 5 {
			t.Errorf("%d rows in %v", len(out.elements), took)
		}
	})
}
