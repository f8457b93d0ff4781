package vae

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"

	"latentbeam/internal/media"
	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// TestReadersAreAhead: the next clips of a batch are decoded while one clip is encoded, with the same frames as if each were
// read alone. A missing file fails only its own clip, and a clip that is not needed any more is cancelled.
func TestReadersAreAhead(t *testing.T) {
	const dir, side, frames = "../../testdata/media/", 24, 12
	var batch []*stages.Element
	for i, name := range []string{"square.y4m", "disc", "gone.y4m", "square.y4m", "disc", "disc"} {
		row := schemas.PromptRow{Media: filepath.Join(dir, name), NumFrames: frames, FPS: 8, Height: side, Width: side + 8*(i%2)}
		batch = append(batch, &stages.Element{Row: row})
	}
	batch[4].Row.Media, batch[4].Row.Width = batch[1].Row.Media, batch[1].Row.Width // the same clip
	batch[5].Row.Width = 40
	dev := kernels.NewMetered(cpu.New(1))
	known := ""
	q := newReaders(t.Context(), dev, batch, false, func(name string) bool { return name == known })
	known = q.names[3]
	open := func() (n []int) {
		for i, r := range q.opened {
			if r != nil {
				n = append(n, i)
			}
		}
		return n
	}
	for i, want := range [][]int{{0, 1, 2}, {1, 2}, {2, 5}, {3, 5}, {4, 5}, {5}} {
		r, row := q.reader(i), &batch[i].Row
		if got := open(); !slices.Equal(got, want) {
			t.Errorf("clip %d: readers of %v, want %v", i, got, want)
		}
		got := make([]float32, side*row.Width*3)
		if i == 2 {
			var bad *FootageError
			if err := r.frame(got, 0); !errors.As(err, &bad) {
				t.Errorf("a file that is not there: %v", err)
			}
			q.close(i)
			continue
		}
		alone, err := media.OpenFrames(t.Context(), row.Media, frames, row.FPS, side, row.Width, media.Rules{})
		if err != nil {
			t.Fatal(err)
		}
		wanted := make([]float32, len(got))
		for f := range frames {
			for range 1 + f%2 { // the last frame may be requested again
				if err := r.frame(got, f); err != nil {
					t.Fatal(err)
				}
			}
			if err := alone.At(wanted, f); err != nil || !slices.Equal(got, wanted) {
				t.Fatalf("clip %d, frame %d is another: %v", i, f, err)
			}
		}
		if err := r.frame(got, frames); err == nil {
			t.Error("a frame behind the last")
		}
		if err := r.frame(got, 0); err == nil {
			t.Error("a frame before the last")
		}
		_ = alone.Close()
		q.close(i)
	}
	q.closeAll()
	// All clips except 2, which does not exist. Clip 5 was started three times: it was cancelled when 3 and 4 were requested.
	if done := dev.Usage()[kernels.OpDecode]; done.Calls < 5*frames || done.Calls > 7*frames || done.Time <= 0 {
		t.Errorf("%d frames decoded in %v, want %d and those of cancelled clips", done.Calls, done.Time, 5*frames)
	}
	ctx, cancel := context.WithCancel(t.Context())
	begun := make(chan struct{})
	close(begun)
	r := read(ctx, dev, batch[0], 2, begun)
	if err := r.frame(make([]float32, side*side*3), 0); err != nil {
		t.Fatal(err)
	}
	cancel()
	r.close() // it would wait forever for a decoder that waits for room
	if err := fmt.Sprint(r.err); err != context.Canceled.Error() {
		t.Errorf("a clip that was given up ends with %s", err)
	}
}

// TestReadersBeginInOrder: a reader does nothing before the reader in front of it has everything that it may have to wait
// for.
func TestReadersBeginInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &stages.Element{Row: schemas.PromptRow{Media: "../../testdata/media/disc", NumFrames: 4, FPS: 8, Height: 16, Width: 16}}
		begun := make(chan struct{})
		first := read(t.Context(), cpu.New(1), e, 4, begun)
		second := read(t.Context(), cpu.New(1), e, 4, first.started)
		defer first.close()
		defer second.close()
		synctest.Wait()
		select {
		case <-second.frames:
			t.Fatal("a reader decodes before the one in front of it")
		default:
		}
		close(begun)
		for i := range 4 {
			if err := second.frame(make([]float32, 16*16*3), i); err != nil {
				t.Fatal(err)
			}
		}
		<-first.started
	})
}
