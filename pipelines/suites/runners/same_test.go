package runners

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/stages"
)

// TestSameBytes: the output does not depend on batch size, workers, threads or runner.
func TestSameBytes(t *testing.T) {
	var largest atomic.Int64
	look := jobtest.Passive("look", func(_ context.Context, batch []*stages.Element) error {
		for n := int64(len(batch)); ; {
			if old := largest.Load(); n <= old || largest.CompareAndSwap(old, n) {
				return nil
			}
		}
	})
	base := jobtest.NewJob(t, jobtest.SameTable)
	base.Specs, base.Stages = jobtest.Specs(look), "[encode_text, denoise, look, decode_vae, guard, encode_video]"
	set := func(text string) jobtest.Job {
		j := base.Elsewhere(t)
		j.Sets = strings.Fields(text)
		return j
	}
	alone := set("resources.batch_size=1 resources.workers=1 resources.threads=1")
	alone.MustRun(t)
	want := jobtest.MustRead(t, alone.Out)
	if n := largest.Load(); n != 1 || len(want.Rows["videos"]) != 9 {
		t.Fatalf("the first run has a largest batch of %d rows and %d videos", n, len(want.Rows["videos"]))
	}
	for _, c := range []struct {
		batch int64
		sets  string
	}{
		{2, "resources.batch_size=2 resources.workers=1 resources.threads=1"},
		{5, "resources.batch_size=5 resources.workers=1 resources.threads=2"},
		{2, "resources.batch_size=2 resources.workers=2 resources.threads=2"},
		{5, "resources.batch_size=5 resources.workers=2 resources.threads=3"},
		{5, "resources.batch_size=5 runner=prism"},
	} {
		if strings.Contains(c.sets, "prism") {
			jobtest.NeedPrism(t)
		}
		largest.Store(0)
		j := set(c.sets)
		j.MustRun(t)
		if wrong := want.Diff(jobtest.MustRead(t, j.Out)); wrong != nil {
			t.Errorf("%s: the output differs:\n%s", c.sets, strings.Join(wrong, "\n"))
		}
		if n := largest.Load(); n != c.batch {
			t.Errorf("%s: the largest batch had %d rows, which the setting must change", c.sets, n)
		}
	}
}
