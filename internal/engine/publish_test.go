package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"latentbeam/internal/storage/ledger"
	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/dir"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// results makes elements with a latent of n numbers each.
func (e *Engine) results(from, count, n int) []*stages.Element {
	var out []*stages.Element
	for i := range count {
		el := e.elements(fmt.Sprint("prompt ", from+i))[0]
		el.Latents = stages.NewArray(1, 1, 1, n)
		out = append(out, el)
	}
	return out
}

// TestGroupCommit: what is finished is on disk a second later at most, in one group, and sooner where the
// group is large.
func TestGroupCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, 1, step("model", fakeStage{}))
		c := e.Publisher(t.Context())
		add := func(els []*stages.Element) {
			t.Helper()
			if err := c.Add(&stages.Batch{Elements: els}); err != nil {
				t.Fatal(err)
			}
		}
		published := func(want, segments int) {
			t.Helper()
			synctest.Wait()
			if e.Ledger.Len() != want || e.Ledger.Segments() != segments {
				t.Errorf("%d records in %d segments, want %d in %d", e.Ledger.Len(), e.Ledger.Segments(), want, segments)
			}
		}
		add(e.results(0, 3, 1))
		time.Sleep(600 * time.Millisecond)
		add(e.results(3, 1, 1))
		published(0, 0)
		time.Sleep(399 * time.Millisecond)
		published(0, 0)
		time.Sleep(time.Millisecond)
		published(4, 1)
		time.Sleep(time.Hour) // nothing to do, no empty group
		published(4, 1)
		add(e.results(4, commitRows, 1)) // many rows do not wait
		published(4+commitRows, 2)
		add(e.results(10_000, 3, commitBytes/4/3+1)) // and neither do many bytes
		published(7+commitRows, 3)
		add(e.results(20_000, 2, 1))
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		published(9+commitRows, 4)
		if done := e.Progress.Done.Load(); done != 9+commitRows {
			t.Errorf("%d done", done)
		}
	})
}

// TestPublishReleasesKeys: a row equal to one in flight is let through again only once the ledger has it.
func TestPublishReleasesKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, 1, step("model", fakeStage{}))
		c := e.Publisher(t.Context())
		els := e.results(0, 1, 1)
		if !e.pending.claim(els[0].Key) || e.pending.claim(els[0].Key) {
			t.Fatal("one claim")
		}
		if err := c.Add(&stages.Batch{Elements: els}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if e.Settled() {
			t.Error("settled before it is published")
		}
		time.Sleep(commitDelay)
		synctest.Wait()
		_, status, err := e.Ledger.Lookup(ledger.Key(els[0].Key))
		if !e.Settled() || status != ledger.Done || err != nil {
			t.Errorf("settled %v, %v, %v", e.Settled(), status, err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestPublishStopsAtAnError: after a full disk nothing more is published, nobody waits, and the job knows
// why.
func TestPublishStopsAtAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, 1, step("model", fakeStage{}))
		e.Store.(*dir.Dir).SetTrace(func(c dir.Call) error {
			if c.Op == dir.OpWrite {
				return syscall.ENOSPC
			}
			return nil
		})
		c := e.Publisher(t.Context())
		if err := c.Add(&stages.Batch{Elements: e.results(0, 1, 1)}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(commitDelay)
		synctest.Wait()
		if err := c.Add(&stages.Batch{Elements: e.results(1, 1, 1)}); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("add after the disk was full: %v", err)
		}
		e.Store.(*dir.Dir).SetTrace(nil)
		err := c.Close()
		if !errors.Is(err, syscall.ENOSPC) || !errors.Is(e.Err(), syscall.ENOSPC) || e.Ledger.Len() > 0 {
			t.Errorf("close: %v, job: %v, %d records", err, e.Err(), e.Ledger.Len())
		}
	})
}

// TestForeignFileFailsOneRow: a file that somebody else put under a video's name is kept and is that row's
// failure; the row published beside it is done.
func TestForeignFileFailsOneRow(t *testing.T) {
	e := newEngine(t, 1, step("model", fakeStage{}))
	e.Keep = map[stages.Kind]bool{stages.KindVideo: true}
	els := e.results(0, 2, 1)
	for _, el := range els {
		el.Video = &schemas.Encoded{Data: []byte("ours"), Ext: ".mp4"}
	}
	key := els[1].Key.String()
	name := "videos/" + key[:2] + "/" + key + ".mp4"
	if err := e.Store.Put(t.Context(), store.Object{Name: name, Data: []byte("theirs")}); err != nil {
		t.Fatal(err)
	}
	c := e.Publisher(t.Context())
	if err := c.Add(&stages.Batch{Elements: els}); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	for i, want := range []ledger.Status{ledger.Done, ledger.Failed} {
		if _, status, err := e.Ledger.Lookup(ledger.Key(els[i].Key)); status != want || err != nil {
			t.Errorf("row %d: %v, %v, want %v", i, status, err, want)
		}
	}
	if f := els[1].Failed; f == nil || f.Stage != "publish" || !strings.Contains(f.Message, "remove the file") {
		t.Errorf("failure %+v", els[1].Failed)
	}
}

// TestPublishWhenTheJobEnds: what is finished is published although another part of the bundle failed, but
// not when the job is told to end at once.
func TestPublishWhenTheJobEnds(t *testing.T) {
	for _, atOnce := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			e := newEngine(t, 1, step("model", fakeStage{}))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			failed := errors.New("a stage failed")
			err := e.Pass(ctx, func(ctx context.Context) error {
				if err := e.Publisher(ctx).Add(&stages.Batch{Elements: e.results(0, 2, 1)}); err != nil {
					t.Error(err)
				}
				synctest.Wait()
				if atOnce {
					cancel()
				}
				return failed
			})
			want := 2
			if atOnce {
				want, failed = 0, context.Canceled // which is why it ended
			}
			if !errors.Is(err, failed) || e.Ledger.Len() != want {
				t.Errorf("at once %v: %v, %d records, want %d", atOnce, err, e.Ledger.Len(), want)
			}
		})
	}
}
