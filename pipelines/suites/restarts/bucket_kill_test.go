//go:build unix

package restarts

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/open"
	"latentbeam/internal/system/testaid"
	"latentbeam/schemas/fault"
)

// bucketKillsEnv is the number of jobs that TestKillAndResumeInBuckets kills on each service; default 12.
const bucketKillsEnv = "LATENTBEAM_BUCKET_KILLS"

// TestKillAndResumeInBuckets kills jobs that write to buckets. All visible objects are complete then, and after the next run the
// output is equal to that of an undisturbed run.
func TestKillAndResumeInBuckets(t *testing.T) {
	testaid.Long(t, "kills processes")
	kills, err := strconv.Atoi(os.Getenv(bucketKillsEnv))
	if err != nil {
		kills = 12
	}
	onDisk := &crashJob{Life: jobtest.Life{Prompts: jobtest.WriteTable(t, "prompts.csv", crashTable), Pause: crashPause, Sets: crashSets}}
	onDisk.prepare(t)
	points := []string{fault.StorePutTempWritten, fault.StorePutRenamed, fault.LedgerCommitBeforePut,
		fault.LedgerCommitAfterPut, fault.StoreReplaceTempCreated, fault.StoreReplaceTempWritten, fault.StoreReplaceRenamed}
	seed := uint64(time.Now().UnixNano())
	for scheme, service := range jobtest.Buckets {
		t.Run(scheme, func(t *testing.T) {
			server := service(t)
			server.Use(t)
			random := rand.New(rand.NewPCG(seed, 0))
			slot, dead := make(chan bool, 4), atomic.Int64{}
			var wg sync.WaitGroup
			for i := range kills {
				l := onDisk.at("", 150+random.IntN(2500))
				if i%2 == 0 {
					l = onDisk.at(points[random.IntN(len(points))], 1+random.IntN(4))
				}
				l.Out = fmt.Sprintf("%s://bucket/%d/out", scheme, i)
				slot <- true
				wg.Go(func() {
					defer func() { <-slot }()
					if onDisk.breakInBucket(t, l) {
						dead.Add(1)
					}
				})
			}
			wg.Wait()
			t.Logf("P1: %s: %d of %d jobs were killed before their end, no row lost or doubled (seed %d)", scheme, dead.Load(), kills, seed)
			if dead.Load() < int64(kills)/2 {
				t.Error("too few jobs were killed before their end")
			}
		})
	}
}

// breakInBucket runs a process until it is killed or ends, checks its output, and resumes the job. It reports whether the process
// was killed.
func (c *crashJob) breakInBucket(t *testing.T, l jobtest.Life) bool {
	where := fmt.Sprintf("%s, killed at %s:%d", l.Out, l.Point, l.Hit)
	cmd, text := l.Start(t)
	if l.Point == "" {
		time.AfterFunc(time.Duration(l.Hit)*time.Millisecond, func() { cmd.Process.Kill() })
	}
	err := cmd.Wait()
	if err != nil && !jobtest.Killed(err) {
		t.Errorf("%s: the child ended with %v: %s", where, err, text)
		return false
	}
	if wrong := c.halfDone(home(t, l.Out)); len(wrong) > 0 {
		t.Errorf("%s: before the next run:\n%s", where, strings.Join(wrong, "\n"))
	}
	l.Point, l.Pause = "-", 0
	for run := range 2 {
		cmd, text := l.Start(t)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: run %d after the kill: %v: %s", where, run, err, text)
			return false
		}
		var hits map[string]int
		if err := json.Unmarshal([]byte(text.String()), &hits); err != nil || run == 1 && hits[fault.LedgerCommitAfterPut] > 0 {
			t.Errorf("%s: run %d after the kill commits something, although the output is complete: %v: %s", where, run, err, text)
		}
	}
	out := home(t, l.Out)
	got, readErr := jobtest.ReadOutput(out)
	if readErr != nil {
		t.Errorf("%s: %v", where, readErr)
		return false
	}
	if wrong := append(c.want.Diff(got), unpublished(out, got)...); len(wrong) > 0 {
		t.Errorf("%s: after the next run:\n%s", where, strings.Join(wrong, "\n"))
	}
	return err != nil
}

// home copies an output from its bucket to a directory.
func home(t *testing.T, url string) string {
	out := filepath.Join(t.TempDir(), "out")
	jobtest.Must(t, os.MkdirAll(out, 0o755))
	s, err := open.Output(t.Context(), url)
	jobtest.Must(t, err)
	defer s.Close()
	for info, err := range s.List(t.Context(), "", store.Deep) {
		jobtest.Must(t, err)
		data, err := store.ReadFile(t.Context(), s, info.Name)
		jobtest.Must(t, err)
		path := filepath.Join(out, info.Name)
		jobtest.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		jobtest.Must(t, os.WriteFile(path, data, 0o644))
	}
	return out
}
