package pipelines_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"latentbeam/stages"
)

// sameTable has more rows of one shape than the largest batch of the test, and some of two others.
const sameTable = `id,prompt,width,num_frames
a,a red circle moves left,,
b,a blue square moves up,,
c,"a green triangle, which has a much longer prompt than the others have, stays where it is",,
d,,,
e,a yellow circle,32,
f,a white square moves right,,
g,a red square,,1
h,a blue circle moves down,,
i,a yellow square moves up,32,
`

// TestSameBytes: neither batch size nor workers, threads or runner show in the output.
func TestSameBytes(t *testing.T) {
	var largest atomic.Int64
	look := passive("look", func(_ context.Context, batch []*stages.Element) error {
		for n := int64(len(batch)); ; {
			if old := largest.Load(); n <= old || largest.CompareAndSwap(old, n) {
				return nil
			}
		}
	})
	base := newJob(t, sameTable)
	base.specs, base.stages = specs(look), "[encode_text, denoise, look, decode_vae, guard, encode_video]"
	set := func(text string) job {
		j := base.elsewhere(t)
		j.sets = strings.Fields(text)
		return j
	}
	alone := set("resources.batch_size=1 resources.workers=1 resources.threads=1")
	alone.mustRun(t)
	want := mustRead(t, alone.out)
	if n := largest.Load(); n != 1 || len(want.rows["videos"]) != 9 {
		t.Fatalf("a batch of %d rows, %d videos", n, len(want.rows["videos"]))
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
			needPrism(t)
		}
		largest.Store(0)
		j := set(c.sets)
		j.mustRun(t)
		if wrong := want.diff(mustRead(t, j.out)); wrong != nil {
			t.Errorf("%s:\n%s", c.sets, strings.Join(wrong, "\n"))
		}
		if n := largest.Load(); n != c.batch {
			t.Errorf("%s: the largest batch had %d rows", c.sets, n)
		}
	}
}
