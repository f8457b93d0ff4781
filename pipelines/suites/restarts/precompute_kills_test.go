//go:build unix

package restarts

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/system/testaid"
)

// TestKillPrecompute kills a job that encodes clips of a tar and of a folder, with kill -9 at random times. No clip is lost or
// doubled, and the next run computes only the missing clips. LATENTBEAM_KILLS is the number of kills.
func TestKillPrecompute(t *testing.T) {
	testaid.Long(t, "kills processes")
	t.Setenv("TMPDIR", t.TempDir()) // killed processes leave temporary files there
	dir := t.TempDir()
	jobtest.WriteTar(t, dir+"/a.tar", "square.txt", "a blue square", "square.y4m", string(jobtest.ReadFile(t, jobtest.Clips+"square.y4m")))
	j := jobtest.MediaJob(t, fmt.Sprintf("[%q, %q]", dir+"/a.tar", jobtest.Clips+"disc"), "[encode_vae, slow]", "output.write=[latents]",
		"defaults.num_frames=4",
		"input.windows={pick: all, stride: 1}", "resources.batch_size=1")
	k := &kind{name: "precompute", Life: jobtest.Life{Input: j.Input, Stages: j.Stages, Sets: j.Sets, Pause: 100 * time.Millisecond}}
	k.Out = j.Out
	began := time.Now()
	cmd, text := k.Start(t)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("undisturbed run: %v: %s", err, text)
	}
	took := time.Since(began)
	k.want = jobtest.MustRead(t, k.Out)
	total := int64(len(k.want.Rows["latents"]))
	if total != 26 {
		t.Fatalf("the undisturbed run has %d clips, want 13 of each video", total)
	}
	kills := testaid.Count(t, "LATENTBEAM_KILLS", 3)
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 3))
	slot, left := make(chan bool, 3), make([]int64, kills)
	var wg sync.WaitGroup
	for i := range kills {
		after := time.Duration((0.1 + 0.9*random.Float64()) * float64(took))
		slot <- true
		wg.Go(func() {
			defer func() { <-slot }()
			left[i] = k.resume(t, after, total)
		})
	}
	wg.Wait()
	t.Logf("P1: %d kills within %v of a job of %d clips; the next runs computed the missing ones alone, %v (seed %d)", kills,
		took.Round(time.Second), total, left, seed)
}

// resume kills a process after a while and resumes its job. It returns the number of clips that the resumed job computed.
func (k *kind) resume(t *testing.T, after time.Duration, total int64) int64 {
	l := k.Life
	l.Out = filepath.Join(t.TempDir(), "out")
	cmd, text := l.Start(t)
	time.AfterFunc(after, func() { cmd.Process.Kill() })
	if err := cmd.Wait(); err != nil && !jobtest.Killed(err) {
		t.Errorf("killed after %v: the child ended with %v: %s", after, err, text)
	}
	done, err := jobtest.LedgerResults(l.Out)
	if err != nil {
		t.Errorf("killed after %v: %v", after, err)
	}
	r, err := l.Job().Run()
	if err != nil || r.Done != total-int64(len(done)) {
		t.Errorf("killed after %v with %d of %d clips done: the next run computed %d, %v", after, len(done), total, r.Done, err)
	}
	if wrong := k.check(l); len(wrong) > 0 {
		t.Errorf("killed after %v:\n%s", after, strings.Join(wrong, "\n"))
	}
	return r.Done
}
