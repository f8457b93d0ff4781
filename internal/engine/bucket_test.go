package engine

import (
	"errors"
	"fmt"
	"testing"

	"latentbeam/schemas"
	"latentbeam/stages"
)

// batches is an emitter that keeps the batches.
type batches []*stages.Batch

func (b *batches) emit(one *stages.Batch) { *b = append(*b, one) }

func (b batches) sizes() (sizes []int) {
	for _, one := range b {
		sizes = append(sizes, len(one.Elements))
	}
	return sizes
}

func element(width int) *stages.Element {
	return &stages.Element{Row: schemas.PromptRow{Width: width, Height: 8, NumFrames: 1}}
}

// TestBucketSizesFollowTheMemory: the stage that needs the most memory decides the batch size, and only rows of one shape share
// a batch.
func TestBucketSizesFollowTheMemory(t *testing.T) {
	need := func(each int64) fakeStage {
		return fakeStage{need: func(row *schemas.PromptRow, n int) (int64, error) {
			if row.Width == 99 {
				return 0, errors.New("no such width")
			}
			return each * int64(n) * int64(row.Width) / 8, nil
		}}
	}
	e := newEngine(t, 1, step("small", need(1)), step("hungry", need(30)), step("middle", need(7)))
	f, out := e.Buckets(), &batches{}
	for range 7 { // a batch may fill 100 bytes (Target of the pool): three rows of width 8, one of width 16
		f.Add(element(8), out.emit)
		f.Add(element(16), out.emit)
	}
	if got := fmt.Sprint(out.sizes()); got != "[1 1 3 1 1 1 3 1 1]" {
		t.Errorf("batches of %s", got)
	}
	for _, b := range *out {
		for _, el := range b.Elements {
			if schemas.BucketOf(el.Row) != b.Bucket {
				t.Errorf("a row of width %d in bucket %v", el.Row.Width, b.Bucket)
			}
		}
	}
	f.Close(out.emit)
	if got := fmt.Sprint(out.sizes()); got != "[1 1 3 1 1 1 3 1 1 1]" {
		t.Errorf("batches of %s after the bundle", got)
	}

	*out = nil
	f = e.Buckets()
	f.Add(element(99), out.emit)
	f.Add(element(8*40), out.emit) // one row needs 1200 bytes, the Limit of the pool is 1000
	for i, want := range []string{"small: no such width", "one element needs 1.2 KiB, a worker has 1000 B"} {
		if el := (*out)[i].Elements[0]; el.Failed == nil || el.Failed.Stage != "plan" ||
			len(el.Failed.Message) < len(want) || el.Failed.Message[:len(want)] != want {
			t.Errorf("%+v, want %s", el.Failed, want)
		}
	}
	e.Schedule.MaxBatch = 2
	*out = nil
	for range 4 {
		f.Add(element(8), out.emit)
	}
	if got := fmt.Sprint(out.sizes()); got != "[2 2]" {
		t.Errorf("with batch_size 2: batches of %s", got)
	}
}

// TestBucketsAreBounded: if every row has a new shape, at most maxBuffered elements wait.
func TestBucketsAreBounded(t *testing.T) {
	f, out := newEngine(t, 1).Buckets(), &batches{}
	for i := range maxBuffered + 100 {
		f.Add(element(i), out.emit)
		if f.buffered > maxBuffered || len(f.open) != len(f.order) {
			t.Fatalf("%d elements wait in %d buckets, %d in order", f.buffered, len(f.open), len(f.order))
		}
	}
	if len(*out) != 100 || (*out)[0].Bucket.Width != 0 || (*out)[99].Bucket.Width != 99 {
		t.Errorf("%d batches, want 100, oldest shapes first", len(*out))
	}
	f.engine.Schedule.Stop()
	f.Close(out.emit)
	if len(*out) != 100 {
		t.Errorf("%d batches were begun after Stop", len(*out)-100)
	}
}

// TestFinishedElementsGoTogether: finished elements with small videos of one shape share a batch, up to LookBatch; each other
// finished element is a batch alone.
func TestFinishedElementsGoTogether(t *testing.T) {
	finished := func(width int, video bool) *stages.Element {
		e := element(width)
		e.Settled = &schemas.Result{}
		if video {
			e.Settled.Video = &schemas.VideoFile{}
		}
		return e
	}
	looks := step("look", fakeStage{})
	looks.MeasuresOnly = true
	e := newEngine(t, 1, step("make", fakeStage{}), looks)
	f, out := e.Buckets(), &batches{}
	for range mostSettled + 2 {
		f.Add(finished(8, true), out.emit)
	}
	f.Add(finished(16, true), out.emit)
	f.Add(finished(16, false), out.emit)
	f.Add(finished(2048*2048, true), out.emit)
	f.Close(out.emit)
	if got := fmt.Sprint(out.sizes()); got != "[8 2 1 1 1]" {
		t.Errorf("batches of %s", got)
	}
	for _, b := range *out {
		if !b.Settled() || schemas.BucketOf(b.Elements[0].Row) != b.Bucket {
			t.Errorf("a batch of %v", b.Bucket)
		}
	}
	e = newEngine(t, 1, looks)
	e.Schedule.MaxBatch = 3
	f, *out = e.Buckets(), nil
	for range 4 {
		f.Add(finished(8, true), out.emit)
	}
	e.Schedule.Stop()
	f.Close(out.emit)
	if got := fmt.Sprint(out.sizes()); got != "[3]" {
		t.Errorf("with batch_size 3, stopped: batches of %s", got)
	}
}
