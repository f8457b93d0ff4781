package runfiles_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/bucket/buckettest"
	"latentbeam/internal/storage/store/open"
	"latentbeam/internal/watch/runfiles"
)

// eachStore runs a test on a directory and on both kinds of buckets.
func eachStore(t *testing.T, test func(t *testing.T, url string)) {
	t.Run("dir", func(t *testing.T) { test(t, filepath.Join(t.TempDir(), "out")) })
	for scheme, service := range map[string]func(testing.TB) *buckettest.Server{"gs": buckettest.GCS, "s3": buckettest.S3} {
		t.Run(scheme, func(t *testing.T) {
			service(t).Use(t)
			test(t, scheme+"://"+buckettest.Bucket+"/some/out")
		})
	}
}

// openStore opens the output at url until the test ends.
func openStore(t *testing.T, url string) store.Store {
	t.Helper()
	s, err := open.Output(t.Context(), url)
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestJob: the description of a job is read as it was written, twice. Of two stop requests, the stronger one counts.
func TestJob(t *testing.T) {
	eachStore(t, func(t *testing.T, url string) {
		ctx := t.Context()
		j := runfiles.Folder{Store: openStore(t, url), ID: runfiles.NewID(time.Now())}
		info := runfiles.JobInfo{Runner: "flink", Endpoint: "host:8081", Engine: "abc", Output: url, Version: "1",
			Started: time.Now().UTC().Round(0)}
		must(t, j.Write(ctx, info))
		must(t, j.Write(ctx, info)) // the second write, when the engine's id is known
		got, err := j.Read(ctx)
		must(t, err)
		info.Schema, info.ID = 1, j.ID
		if !reflect.DeepEqual(got, info) {
			t.Errorf("read %+v, wrote %+v", got, info)
		}
		if s, err := j.Stopped(ctx); s != nil || err != nil {
			t.Errorf("before any stop request: got %v, %v", s, err)
		}
		if err := j.Stop(ctx, "later", "a test"); err == nil {
			t.Error("an unknown kind of stop gives no error")
		}
		must(t, j.Stop(ctx, runfiles.Drain, "a test"))
		must(t, j.Stop(ctx, runfiles.Cancel, "a test"))
		if s, err := j.Stopped(ctx); err != nil || s == nil || s.How != runfiles.Cancel || s.By != "a test" {
			t.Errorf("got the stop request %+v, %v; want Cancel by a test", s, err)
		}
	})
}

// TestProcesses: two processes, each with its own store, write facts and hold locks in one job, and a third process reads them.
func TestProcesses(t *testing.T) {
	eachStore(t, func(t *testing.T, url string) {
		ctx := t.Context()
		id := runfiles.NewID(time.Now())
		var releases []func()
		for _, name := range []string{"a-1", "b-2"} {
			j := runfiles.Folder{Store: openStore(t, url), ID: id}
			release, err := j.Lock(ctx, name)
			must(t, err)
			releases = append(releases, sync.OnceFunc(release))
			defer releases[len(releases)-1]()
			f := runfiles.Facts{Process: name, Host: "h", PID: 7, At: time.Now(), Every: 2, Lock: j.LockName(name), State: runfiles.Running,
				Rows: runfiles.Rows{Total: 3}, Batches: []runfiles.Batch{{Stage: "denoise", Count: 4, Step: 17, Of: 50, Device: "cpu:0"}}}
			must(t, j.WriteFacts(ctx, f))
			f.Rows.Done = 2
			must(t, j.WriteFacts(ctx, f))
		}
		reader := runfiles.Folder{Store: openStore(t, url), ID: id}
		facts, err := reader.ReadFacts(ctx)
		must(t, err)
		if len(facts) != 2 || facts[0].Process != "a-1" || facts[1].Rows.Done != 2 || facts[1].Batches[0].Step != 17 ||
			facts[0].Schema != 1 {
			t.Fatalf("facts: %+v", facts)
		}
		releases[0]()
		if err := reader.Store.Held(ctx, reader.LockName("a-1")); err != nil {
			t.Errorf("the lock of a-1 was released, but Held gives %v", err)
		}
		var held *store.LockedError
		if err := reader.Store.Held(ctx, reader.LockName("b-2")); !errors.As(err, &held) {
			t.Errorf("the lock of b-2 is in use, but Held gives %v", err)
		}
	})
}

// TestLife: LifeOf judges a process by the age of its facts, its lock and its state. Facts of an hour ago are those of a silent process while
// it has the lock, and of a dead one afterwards.
func TestLife(t *testing.T) {
	eachStore(t, func(t *testing.T, url string) {
		ctx, now := t.Context(), time.Now()
		j := runfiles.Folder{Store: openStore(t, url), ID: "job"}
		release, err := j.Lock(ctx, "p")
		must(t, err)
		release = sync.OnceFunc(release)
		defer release()
		owner := store.NewOwner("")
		f := runfiles.Facts{Process: "p", Host: owner.Host, PID: owner.PID, Every: 2, Lock: j.LockName("p"), State: runfiles.Running, At: now}
		ask := func(age time.Duration, want runfiles.Life) {
			t.Helper()
			if got, err := j.LifeOf(ctx, f, now.Add(age)); got != want || err != nil {
				t.Errorf("facts %v old: got %v, %v; want %v", age, got, err, want)
			}
		}
		ask(time.Second, runfiles.Alive)
		ask(time.Hour, runfiles.Silent)
		if !store.HasScheme(url) { // on a bucket, these answers would need a wait for the next heartbeat of the lock
			ask(-time.Hour, runfiles.Silent) // the clock of the process is ahead
			f.PID++
			ask(time.Hour, runfiles.Dead) // the lock belongs to another process
			f.PID--
		}
		release()
		ask(time.Second, runfiles.Alive)
		ask(time.Hour, runfiles.Dead)
		f.State = runfiles.Done
		ask(time.Hour, runfiles.Ended)
	})
}

// TestPrune: Prune keeps the last jobs and the job that calls it, and removes all files of older ones.
func TestPrune(t *testing.T) {
	eachStore(t, func(t *testing.T, url string) {
		ctx, s := t.Context(), openStore(t, url)
		begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		var all []string
		for i := range runfiles.MaxJobs + 3 {
			// The order depends on the times and not on the names.
			j := runfiles.Folder{Store: s, ID: fmt.Sprintf("%02d", (i*7)%(runfiles.MaxJobs+3))}
			must(t, j.Write(ctx, runfiles.JobInfo{Started: begin.Add(time.Duration(i) * time.Hour)}))
			must(t, j.WriteFacts(ctx, runfiles.Facts{Process: "p"}))
			all = append(all, j.ID)
		}
		j := runfiles.Folder{Store: s, ID: all[1]} // an old job that is started again
		must(t, j.Prune(ctx))
		jobs, err := runfiles.List(ctx, s)
		must(t, err)
		var got []string
		for _, i := range jobs {
			got = append(got, i.ID)
		}
		want := append(slices.Clone(all[4:]), all[1])
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("kept %v, want %v", got, want)
		}
		if jobs[0].ID != all[len(all)-1] {
			t.Errorf("listed first is %s, want the last job %s", jobs[0].ID, all[len(all)-1])
		}
		if !store.HasScheme(url) {
			if dirs, _ := os.ReadDir(filepath.Join(url, "runs")); len(dirs) != runfiles.MaxJobs {
				t.Errorf("%d directories are left, want %d", len(dirs), runfiles.MaxJobs)
			}
		}
	})
}

// TestUnreadable: a job file that is not JSON does not hide the jobs that can be read, and the error of reading it names the file.
func TestUnreadable(t *testing.T) {
	ctx, s := t.Context(), openStore(t, filepath.Join(t.TempDir(), "out"))
	must(t, s.Replace(ctx, "runs/old/job.json", func(w io.Writer) error { _, err := io.WriteString(w, "{"); return err }))
	j := runfiles.Folder{Store: s, ID: "new"}
	must(t, j.Write(ctx, runfiles.JobInfo{Started: time.Now()}))
	jobs, err := runfiles.List(ctx, s)
	if err != nil || len(jobs) != 2 || jobs[0].ID != "new" || jobs[1].ID != "old" {
		t.Errorf("List: got %+v, %v; want new, old", jobs, err)
	}
	if _, err := (runfiles.Folder{Store: s, ID: "old"}).Read(ctx); err == nil || !strings.Contains(err.Error(), "runs/old/job.json") {
		t.Errorf("the error does not name the file: %v", err)
	}
	if _, err := (runfiles.Folder{Store: s, ID: "none"}).Read(ctx); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a job that does not exist: %v", err)
	}
}

// TestReplacedWhileRead: a reader gets complete facts while they are replaced.
func TestReplacedWhileRead(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "out"))
	j := runfiles.Folder{Store: s, ID: "job"}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	must(t, j.WriteFacts(ctx, runfiles.Facts{Process: "p", Batches: make([]runfiles.Batch, 100)}))
	wg.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			if err := j.WriteFacts(ctx, runfiles.Facts{Process: "p", Batches: make([]runfiles.Batch, 50+i%50)}); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
	})
	for range 50 {
		if facts, err := j.ReadFacts(ctx); err != nil || len(facts) != 1 || len(facts[0].Batches) < 50 {
			t.Fatalf("got %d facts, %v; want one with 50 batches or more", len(facts), err)
		}
	}
}

// TestProcessNames: Process makes a name for files of the run: other characters than letters, digits, - and . become -, and it is cut at 100.
func TestProcessNames(t *testing.T) {
	for text, want := range map[string]string{"node-1.x": "node-1.x", "a/b c:ü": "a-b-c--",
		strings.Repeat("x", 300): strings.Repeat("x", 100)} {
		got := runfiles.Process(text)
		if got != want {
			t.Errorf("Process(%q) = %q, want %q", text, got, want)
		}
		must(t, store.CheckName(runfiles.Prefix+"job/facts-"+got+".json"))
	}
}
