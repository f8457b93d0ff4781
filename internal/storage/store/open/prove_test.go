package open

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"latentbeam/internal/storage/fingerprints"
	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/bucket/buckettest"
	"latentbeam/schemas/fault"
)

// TestOutputIsProven: a bucket that breaks a promise is refused by its name before anything is written, a good one is trusted for
// a day, and one run alone may write to a bad one.
func TestOutputIsProven(t *testing.T) {
	server := buckettest.S3(t)
	server.Use(t)
	t.Setenv(fingerprints.CacheVariable, t.TempDir())
	const url = "s3://bucket/jobs/proven"
	restore := server.Behave(buckettest.Behaviours("")[1])
	_, err := Output(t.Context(), url)
	if fault.ExitCode(err) != fault.ExitUsage || !strings.Contains(err.Error(), "put if absent: 4 of 4 writers") ||
		!strings.Contains(err.Error(), "output.unsafe_store") {
		t.Errorf("conditions are ignored: %v", err)
	}
	unsafe, err := Unsafe(t.Context(), url)
	if err != nil || len(Broken(unsafe)) == 0 {
		t.Fatalf("one run alone: %v", err)
	}
	release, err := unsafe.Lock(t.Context(), ".lock", "one run")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := unsafe.Put(t.Context(), store.Object{Name: "a", Data: []byte("content")}); err != nil {
			t.Error(err)
		}
	}
	if err := unsafe.Put(t.Context(), store.Object{Name: "a", Data: []byte("another")}); err == nil {
		t.Error("other bytes are no conflict where conditions are ignored")
	}
	release()
	restore()
	good, err := Output(t.Context(), url)
	if err != nil || Broken(good) != nil {
		t.Fatalf("a good service: %v", err)
	}
	requests := server.Requests.Load()
	if _, err := Output(t.Context(), url); err != nil || server.Requests.Load()-requests > 1 {
		t.Errorf("a bucket that was checked takes %d requests more, %v", server.Requests.Load()-requests, err)
	}
	defer server.Behave(buckettest.Behaviours("")[1])()
	if _, err := Output(t.Context(), "s3://bucket/another"); err != nil {
		t.Errorf("within a day: %v", err)
	}
	yesterday := time.Now().Add(-25 * time.Hour)
	if err := os.Chtimes(mark(url), yesterday, yesterday); err != nil {
		t.Fatal(err)
	}
	if _, err := Output(t.Context(), url); fault.ExitCode(err) != fault.ExitUsage {
		t.Errorf("a day later: %v", err)
	}
	if remembered(url) {
		t.Error("a bad bucket is remembered as a good one")
	}
}

// TestProve: both forms leave nothing behind, and the whole one knows more.
func TestProve(t *testing.T) {
	gcs, s3 := buckettest.GCS(t), buckettest.S3(t)
	gcs.Use(t)
	s3.Use(t)
	t.Setenv(fingerprints.CacheVariable, t.TempDir())
	for _, url := range []string{"gs://bucket/whole", "s3://bucket/whole"} {
		for _, whole := range []bool{false, true} {
			began := time.Now()
			promises, err := Prove(t.Context(), url, whole)
			if err != nil || store.Refuse(url, promises) != nil || len(promises) < 7 || whole && len(promises) < 9 {
				t.Errorf("%s, whole %v: %v, %+v", url, whole, err, promises)
			}
			for _, p := range promises {
				if p.State != store.Kept {
					t.Errorf("%s: %+v", url, p)
				}
			}
			t.Logf("%s, whole %v: %d promises in %v", url, whole, len(promises), time.Since(began).Round(time.Millisecond))
		}
		if n := left(t, url); n != 0 {
			t.Errorf("%s: %d objects stay", url, n)
		}
	}
}

// TestProveDir: a directory is checked without a trace, and what a killed check has left goes with it.
func TestProveDir(t *testing.T) {
	at := t.TempDir()
	old := filepath.Join(at, checkFolder+"old")
	if err := os.Mkdir(old, 0o755); err != nil {
		t.Fatal(err)
	}
	yesterday := time.Now().Add(-24 * time.Hour)
	if err := os.Chtimes(old, yesterday, yesterday); err != nil {
		t.Fatal(err)
	}
	for _, whole := range []bool{false, true} {
		began := time.Now()
		promises, err := Prove(t.Context(), filepath.Join(at, "not", "there"), whole)
		if err != nil || len(promises) < 6 || whole && len(promises) < 8 {
			t.Errorf("whole %v: %v, %+v", whole, err, promises)
		}
		for _, p := range promises {
			if p.State == store.Broken {
				t.Errorf("%+v", p)
			}
		}
		t.Logf("whole %v: %d promises in %v", whole, len(promises), time.Since(began).Round(time.Millisecond))
	}
	if left, err := os.ReadDir(at); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// left counts all objects below an address, also those that a listing of the store does not show.
func left(t *testing.T, url string) (n int) {
	t.Helper()
	b, err := inBucket(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range b.Objects(t.Context(), "", false) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}
