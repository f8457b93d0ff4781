package pipelines_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/dir"
	"latentbeam/internal/system/testaid"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// hostileNames returns texts that lead out of a directory, or that are invalid file names on some system.
func hostileNames(n int) (names []string) {
	seeds := []string{"../../escaped", "/etc/escaped", "..\\..\\escaped", "a/../../escaped", "CON", "nul.txt", "a:b",
		"a\u0000b", "~/escaped",
		"$HOME/escaped", "`touch escaped`", "$(touch escaped)", "; touch escaped", "\r\nescaped", strings.Repeat("n", 4096), ".", "..", "-rf",
		"\u202egpj.exe", "a\u0300\u0301\u0302", ".tmp-00000000-1-1", "con.mp4", "trailing. ", "\xc0\xae\xc0\xae/escaped", "%2e%2e%2fescaped",
		"file:///escaped", "|escaped", "<script>alert(1)</script>", "\"><img src=x onerror=alert(1)>", "日本/../../../escaped"}
	random := rand.New(rand.NewPCG(7, uint64(n)))
	for i := range n {
		name := seeds[i%len(seeds)]
		if i >= len(seeds) { // the further names are two seeds, joined by something
			name += []string{"/", "\\", " ", "", "//", "/./"}[random.IntN(6)] + seeds[random.IntN(len(seeds))]
		}
		names = append(names, name)
	}
	return names
}

// TestPromiseP7: nothing is written outside of the output, whatever the ids of rows are, and if directories are replaced by
// links. LATENTBEAM_NAMES is the number of hostile names.
func TestPromiseP7(t *testing.T) {
	n := testaid.Count(t, "LATENTBEAM_NAMES", 60)
	above := t.TempDir()
	t.Chdir(above)
	var table strings.Builder
	for i, name := range hostileNames(n) {
		js, err := json.Marshal(map[string]any{"id": fmt.Sprint(name), "prompt": "a red circle", "seed": i, "num_frames": 1, "note": name})
		jobtest.Must(t, err)
		table.Write(append(js, '\n'))
	}
	j := jobtest.Job{Prompts: jobtest.WriteTable(t, "prompts.jsonl", table.String()), Out: filepath.Join(above, "out"),
		Sets: []string{`output.name="{id}-{seed}"`, "output.write=[video]", "on_error.stop_after=100%"}}
	r := j.MustRun(t)
	if r.Totals.Done+r.Totals.Failed != int64(n) || r.Totals.Done < int64(n)/2 {
		t.Errorf("got %+v for %d rows", r.Totals, n)
	}
	if names := namesOf(t, above); !slices.Equal(names, []string{"out"}) {
		t.Errorf("next to the output, the job has written %q", names)
	}
	named, escaped := 0, 0
	jobtest.Must(t, filepath.WalkDir(j.Out, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type()&os.ModeSymlink != 0 {
			escaped++
			t.Errorf("%s in the output is a symbolic link", path)
		}
		if strings.HasPrefix(path, filepath.Join(j.Out, "names")+string(filepath.Separator)) {
			named++
		}
		return err
	}))
	if int64(named) != r.Totals.Done {
		t.Errorf("%d file names for %d videos, want one each", named, r.Totals.Done)
	}
	swapped := 0
	for _, directory := range []string{"videos", "posters", "names", "tables", "ledger", "runs"} {
		swapped++
		swap(t, directory)
	}
	t.Logf("P7: %d hostile names, %d directories swapped for links while a job ran: %d files outside", n, swapped, escaped)
}

// namesOf returns the names of the files in a directory.
func namesOf(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	jobtest.Must(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// swap runs a job and replaces a directory of its output by a symbolic link to another place. The job must not write there.
func swap(t *testing.T, directory string) {
	outside := t.TempDir()
	j := jobtest.NewJob(t, jobtest.ManyRows(4))
	j.Sets = []string{"resources.batch_size=1", `output.name="{prompt}"`}
	j.MustRun(t)
	at := filepath.Join(j.Out, directory)
	j.Rewrite(t, strings.ReplaceAll(jobtest.ManyRows(4), "good", "other"))
	var once sync.Once
	j.Specs = jobtest.Specs(jobtest.Passive("swap", func(context.Context, []*stages.Element) error {
		once.Do(func() { jobtest.Must(t, errors.Join(os.Rename(at, at+"-before"), os.Symlink(outside, at))) })
		return nil
	}))
	j.Stages = "[encode_text, swap, denoise, decode_vae, encode_video]"
	_, err := j.Run() // whether the job ends with an error is not tested
	if left := namesOf(t, outside); len(left) > 0 {
		t.Errorf("%s is a link: %q is written outside (%v)", directory, left, err)
	}
}

// TestPromiseP9: each call that changes the output fails once: disk full, no file descriptors, no permission, or a bad disk. The
// job stops with exit code 75, or 3 after a failed fsync, which must not be repeated. The next run completes the job.
// LATENTBEAM_ERRORS limits the number of failing calls for each job.
func TestPromiseP9(t *testing.T) {
	for name, j := range map[string]jobtest.Job{"videos": jobtest.NewJob(t, jobtest.DiskTable), "precompute": jobtest.MediaJob(t, jobtest.MediaTable(t, ""), jobtest.EncodeBoth)} {
		t.Run(name, func(t *testing.T) { failEachCall(t, j) })
	}
}

// failEachCall runs a job whose disk fails at one call, and then completes the job. It repeats this for many calls.
func failEachCall(t *testing.T, base jobtest.Job) {
	var calls atomic.Int64
	onDisk(base, func(dir.Call) error { calls.Add(1); return nil }).MustRun(t)
	total := int(calls.Load())
	want := jobtest.MustRead(t, base.Out)
	errnos := []syscall.Errno{syscall.ENOSPC, syscall.EIO, syscall.EMFILE, syscall.EACCES, syscall.EDQUOT}
	tries := min(testaid.Count(t, "LATENTBEAM_ERRORS", 10), total*len(errnos))
	random := rand.New(rand.NewPCG(9, uint64(tries)))
	order := random.Perm(total * len(errnos))
	stopped := 0
	for _, at := range order[:tries] {
		errno, n, seen := errnos[at%len(errnos)], at/len(errnos), 0
		var failed dir.Call
		var mu sync.Mutex
		e := base.Elsewhere(t)
		_, err := onDisk(e, func(c dir.Call) error {
			mu.Lock()
			defer mu.Unlock()
			if seen++; seen == n+1 {
				failed = c
				return errno
			}
			return nil
		}).Run()
		code := fault.ExitCode(err)
		sync := failed.Op == dir.OpSync || failed.Op == dir.OpSyncDir
		switch {
		case err == nil: // the call wrote no results, for example facts of the run
		case code == fault.ExitTryAgain, code == fault.ExitFatal && sync && errors.Is(err, errno):
			stopped++
		default:
			t.Errorf("%v at %s %s: the job stopped with exit code %d: %v", errno, failed.Op, failed.Name, code, err)
		}
		if _, err := e.Run(); err != nil {
			t.Errorf("after %v at %s %s, the next run: %v", errno, failed.Op, failed.Name, err)
		} else if wrong := want.Diff(jobtest.MustRead(t, e.Out)); wrong != nil {
			t.Errorf("after %v at %s %s, the output is wrong:\n%s", errno, failed.Op, failed.Name, strings.Join(wrong, "\n"))
		}
	}
	t.Logf("P9: %d of %d pairs of a call and an error, %d jobs stopped, all were completed by the next run", tries,
		total*len(errnos), stopped)
}

// onDisk returns the job with an output directory that calls trace before each operation. An error of trace makes the operation fail.
func onDisk(j jobtest.Job, trace func(dir.Call) error) jobtest.Job {
	open := func(make func(string) (*dir.Dir, error)) func(context.Context, string) (store.Store, error) {
		return func(context.Context, string) (store.Store, error) {
			d, err := make(j.Out)
			if err != nil {
				return nil, err
			}
			d.SetTrace(trace)
			return d, nil
		}
	}
	j.Opts.OutputIn(open(dir.Open), open(dir.OpenExisting))
	return j
}
