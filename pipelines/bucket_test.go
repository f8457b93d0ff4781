//go:build unix

package pipelines_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"latentbeam/internal/config/document"
	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/bucket/buckettest"
	"latentbeam/internal/storage/store/open"
	"latentbeam/internal/system/testaid"
	"latentbeam/schemas/fault"
)

// bucketKillsEnv says how many jobs TestKillAndResumeInBuckets kills on each service, 12 without it.
const bucketKillsEnv = "LATENTBEAM_BUCKET_KILLS"

// services start each kind of bucket.
var services = map[string]func(testing.TB) *buckettest.Server{"gs": buckettest.GCS, "s3": buckettest.S3}

// TestJobInBuckets: a job makes the same objects in a directory and in a bucket whose network is bad.
func TestJobInBuckets(t *testing.T) {
	directory := job{prompts: writeTable(t, "all.csv", seamTable), out: filepath.Join(t.TempDir(), "out"),
		sets: []string{"output.rows_per_file=2"}}
	directory.mustRun(t)
	onDisk, err := open.Existing(t.Context(), directory.out)
	must(t, err)
	defer onDisk.Close()
	want := objects(t, onDisk)
	for scheme, service := range services {
		for _, runner := range inProcess(t) {
			t.Run(scheme+" "+runner.Name, func(t *testing.T) {
				server := service(t)
				server.Use(t)
				server.Set(buckettest.Faults{Rate: 0.05, Seed: 3})
				j := directory
				j.out, j.sets = scheme+"://bucket/some/out", append([]string{"runner=" + runner.Name}, j.sets...)
				j.mustRun(t)
				if r := j.mustRun(t); !r.NothingToDo {
					t.Errorf("the second run: %+v", r)
				}
				server.Set(buckettest.Faults{})
				s, err := open.Existing(t.Context(), j.out)
				must(t, err)
				defer s.Close()
				if got := objects(t, s); !maps.Equal(want, got) {
					t.Errorf("in a directory\n%v\nin the bucket\n%v", want, got)
				}
				must(t, removeFirst(t, s, "videos/"))
				if r := j.mustRun(t); r.Done == 0 {
					t.Errorf("after a video was removed: %+v", r)
				}
				if got := objects(t, s); !maps.Equal(want, got) {
					t.Errorf("made again, in the bucket\n%v", got)
				}
			})
		}
	}
}

// TestKillAndResumeInBuckets kills jobs that write to buckets. What is visible then is whole, and the next run ends in
// the undisturbed run's output.
func TestKillAndResumeInBuckets(t *testing.T) {
	testaid.Long(t, "kills processes")
	kills, err := strconv.Atoi(os.Getenv(bucketKillsEnv))
	if err != nil {
		kills = 12
	}
	onDisk := &crashJob{life: life{Prompts: writeTable(t, "prompts.csv", crashTable), Pause: crashPause, Sets: crashSets}}
	onDisk.prepare(t)
	points := []string{fault.StorePutTempWritten, fault.StorePutRenamed, fault.LedgerCommitBeforePut,
		fault.LedgerCommitAfterPut, fault.StoreReplaceTempCreated, fault.StoreReplaceTempWritten, fault.StoreReplaceRenamed}
	seed := uint64(time.Now().UnixNano())
	for scheme, service := range services {
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
				t.Error("too few")
			}
		})
	}
}

// breakInBucket leads one life to its end and checks what it left, then resumes it. It reports whether the life was
// killed.
func (c *crashJob) breakInBucket(t *testing.T, l life) bool {
	where := fmt.Sprintf("%s, killed at %s:%d", l.Out, l.Point, l.Hit)
	cmd, text := l.start(t)
	if l.Point == "" {
		time.AfterFunc(time.Duration(l.Hit)*time.Millisecond, func() { cmd.Process.Kill() })
	}
	err := cmd.Wait()
	if err != nil && !killed(err) {
		t.Errorf("%s: the child ended with %v: %s", where, err, text)
		return false
	}
	if wrong := c.halfDone(home(t, l.Out)); len(wrong) > 0 {
		t.Errorf("%s: before the next run:\n%s", where, strings.Join(wrong, "\n"))
	}
	l.Point, l.Pause = "-", 0
	for run := range 2 {
		cmd, text := l.start(t)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: run %d after it: %v: %s", where, run, err, text)
			return false
		}
		var hits map[string]int
		if err := json.Unmarshal([]byte(text.String()), &hits); err != nil || run == 1 && hits[fault.LedgerCommitAfterPut] > 0 {
			t.Errorf("%s: run %d after it commits, %v: %s", where, run, err, text)
		}
	}
	out := home(t, l.Out)
	got, readErr := readOutput(out)
	if readErr != nil {
		t.Errorf("%s: %v", where, readErr)
		return false
	}
	if wrong := append(c.want.diff(got), unpublished(out, got)...); len(wrong) > 0 {
		t.Errorf("%s: after the next run:\n%s", where, strings.Join(wrong, "\n"))
	}
	return err != nil
}

// home copies an output to a directory.
func home(t *testing.T, url string) string {
	out := filepath.Join(t.TempDir(), "out")
	must(t, os.MkdirAll(out, 0o755))
	s, err := open.Output(t.Context(), url)
	must(t, err)
	defer s.Close()
	for info, err := range s.List(t.Context(), "", store.Deep) {
		must(t, err)
		data, err := store.ReadFile(t.Context(), s, info.Name)
		must(t, err)
		path := filepath.Join(out, info.Name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, data, 0o644))
	}
	return out
}

// TestBucketMessages: what a user gets to read when a bucket cannot be used, and that no secret is in it.
func TestBucketMessages(t *testing.T) {
	table := writeTable(t, "all.csv", seamTable)
	for scheme, service := range services {
		server := service(t)
		server.Use(t)
		for _, c := range []struct{ out, want string }{
			{scheme + "://no-such-bucket/out", "no such bucket"},
			{scheme + "://key:" + buckettest.SecretKey + "@bucket/out", "credentials"},
		} {
			_, err := job{prompts: table, out: c.out}.run()
			var wrong *document.Error // the command line ends with 2 on it
			usage := errors.As(err, &wrong) || fault.ExitCode(err) == fault.ExitUsage
			if err == nil || !usage || !strings.Contains(err.Error(), c.want) ||
				strings.Contains(err.Error(), buckettest.SecretKey) {
				t.Errorf("%s: exit %d, %v", c.out, fault.ExitCode(err), err)
			}
		}
	}
}
