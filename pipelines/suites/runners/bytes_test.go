package runners

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/system/testaid"
)

// TestPromiseP4: equal keys give equal bytes, whatever the workers, threads, batches, ranks and restarts.
// LATENTBEAM_COMBINATIONS is the number of random combinations.
func TestPromiseP4(t *testing.T) {
	base := jobtest.NewJob(t, jobtest.SetTable)
	base.MustRun(t)
	want := jobtest.MustRead(t, base.Out)
	n := testaid.Count(t, "LATENTBEAM_COMBINATIONS", 5)
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 4))
	pick := func(of ...int) int { return of[random.IntN(len(of))] }
	tried := map[string]bool{}
	for range n {
		workers := pick(1, 2, 3, 4, 8)
		j := base.Elsewhere(t)
		j.Stages = "[encode_text, denoise: {}, decode_vae, guard, encode_video]"
		how := fmt.Sprintf("resources.workers=%d stages.denoise.sequence_parallel=%d resources.threads=%d resources.batch_size=%d",
			workers, 1+random.IntN(workers), pick(1, 2, 8), pick(1, 2, 3, 4, 8))
		first := random.IntN(4)
		tried[fmt.Sprint(how, first)] = true
		j.Sets = strings.Fields(how)
		for _, limit := range []int{first, 0} {
			if j.Opts.Limit = limit; first > 0 || limit == 0 {
				j.MustRun(t)
			}
		}
		if wrong := want.Diff(jobtest.MustRead(t, j.Out)); wrong != nil {
			t.Errorf("%s, restarted after %d rows (seed %d), gives another output:\n%s", how, first, seed, strings.Join(wrong, "\n"))
		}
	}
	t.Logf("P4: %d combinations of workers, ranks, threads, batches and restarts (%d different), all the same bytes", n, len(tried))
}
