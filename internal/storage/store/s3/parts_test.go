package s3

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/bucket"
	"latentbeam/internal/storage/store/bucket/buckettest"
	"latentbeam/schemas/objects"
)

// smallPart is a part in tests.
const smallPart = 70_000

func openSmall(_ context.Context, prefix string, o bucket.Options) (*bucket.Bucket, error) {
	return openIn(bucket.Address{Scheme: Scheme, Bucket: buckettest.Bucket, Prefix: prefix}, nil, o, smallPart)
}

// TestLawsInParts: all laws, where most objects go in parts.
func TestLawsInParts(t *testing.T) { buckettest.Laws(t, buckettest.S3(t), openSmall) }

// inTen is a content of ten parts.
var inTen = bytes.Repeat([]byte("0123456789"), smallPart)

// isPart says that a request sends a part.
func isPart(r *http.Request) bool { return r.Method == http.MethodPut && r.URL.Query().Has("uploadId") }

// isEnd says that a request ends an upload.
func isEnd(r *http.Request) bool { return r.Method == http.MethodPost && r.URL.Query().Has("uploadId") }

// client is the service of a store.
func client(t *testing.T) *service {
	t.Helper()
	core, err := connect(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &service{core, buckettest.Bucket, smallPart}
}

// uploads counts those that were begun and neither finished nor given up.
func uploads(t *testing.T) int {
	t.Helper()
	all, err := client(t).begun(t.Context(), "", time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// TestParts: faults of a large upload cost a part each, a lost acknowledgement of its end is no conflict, and nothing stays
// behind of one that fails.
func TestParts(t *testing.T) {
	server := buckettest.S3(t)
	server.Use(t)
	b, err := openSmall(t.Context(), "parts", bucket.Options{Clock: buckettest.NewClock()})
	if err != nil {
		t.Fatal(err)
	}
	put := func(name string) error { return b.Put(t.Context(), store.Object{Name: name, Data: inTen}) }
	var sent atomic.Int64
	count := func(r *http.Request) bool {
		if isPart(r) {
			sent.Add(1)
		}
		return isPart(r)
	}
	for _, kind := range buckettest.Kinds {
		sent.Store(0)
		met := server.Count(kind)
		server.Set(buckettest.Faults{Rate: 0.3, Seed: 5, Only: count, Kind: kind})
		err := put("faults/" + kind)
		server.Set(buckettest.Faults{})
		met = server.Count(kind) - met
		again := met
		if kind == "slow" || kind == "half" { // the entity tag is a header
			again = 0
		}
		if err != nil || met == 0 || sent.Load() < 10+again || sent.Load() > 10+met {
			t.Errorf("%s: %v; %d parts were sent for 10, %d met the fault", kind, err, sent.Load(), met)
		}
		if got, err := store.ReadFile(t.Context(), b, "faults/"+kind); err != nil || !bytes.Equal(got, inTen) {
			t.Errorf("%s: it holds %d bytes, %v", kind, len(got), err)
		}
	}
	for _, kind := range []string{"lost", "half", "503"} {
		first := true
		server.Set(buckettest.Faults{Rate: 1, Kind: kind, Only: func(r *http.Request) bool {
			hit := isEnd(r) && first
			first = first && !hit
			return hit
		}})
		if err := put("end/" + kind); err != nil || first {
			t.Errorf("the end of an upload met %s: %v", kind, err)
		}
	}
	server.Set(buckettest.Faults{Rate: 1, Kind: "500", Only: isPart})
	if err := put("never"); err == nil {
		t.Error("a service that takes no part took an object")
	}
	server.Set(buckettest.Faults{})
	if there, _ := store.Exists(t.Context(), b, "never"); there {
		t.Error("an object is there of which no part was sent")
	}
	if n := uploads(t); n != 0 {
		t.Errorf("%d uploads stay behind", n)
	}
}

// TestPartsLate: an object that somebody else has put meanwhile stays as it is, and equal bytes are no conflict.
func TestPartsLate(t *testing.T) {
	server := buckettest.S3(t)
	server.Use(t)
	for _, other := range [][]byte{inTen, []byte("others"), bytes.Repeat([]byte("9876543210"), smallPart)} {
		b, err := openSmall(t.Context(), "late", bucket.Options{Clock: buckettest.NewClock()})
		if err != nil {
			t.Fatal(err)
		}
		second, err := open(t.Context(), "late", bucket.Options{Clock: buckettest.NewClock()})
		if err != nil {
			t.Fatal(err)
		}
		begun, service := false, server.Service
		server.Service = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if isEnd(r) && !begun { // the second comes before the end of the first
				begun = true
				if err := second.Put(t.Context(), store.Object{Name: "o", Data: other}); err != nil {
					t.Error(err)
				}
			}
			service.ServeHTTP(w, r)
		})
		err = b.Put(t.Context(), store.Object{Name: "o", Data: inTen})
		server.Service = service
		if equal := bytes.Equal(other, inTen); !begun || equal != (err == nil) || !equal && !errors.Is(err, store.ErrConflict) {
			t.Errorf("after %d other bytes: %v", len(other), err)
		}
		if got, err := store.ReadFile(t.Context(), b, "o"); err != nil || !bytes.Equal(got, other) {
			t.Errorf("%d bytes are there, %v", len(got), err)
		}
		if err := b.Remove(t.Context(), "o"); err != nil {
			t.Error(err)
		}
	}
	if n := uploads(t); n != 0 {
		t.Errorf("%d uploads stay behind", n)
	}
}

// TestOldUploads: what a dead process has begun to send is given up a day later, by who holds the lock.
func TestOldUploads(t *testing.T) {
	server := buckettest.S3(t)
	server.Use(t)
	clock := buckettest.NewClock()
	b, err := openSmall(t.Context(), "old", bucket.Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	s := client(t)
	for _, key := range []string{"old/a", "old/b", "another/c"} {
		if _, err := s.begin(t.Context(), key, objects.Content{}); err != nil {
			t.Fatal(err)
		}
	}
	release, err := b.Lock(t.Context(), ".lock", "a test")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	for _, step := range []struct {
		later     time.Duration
		n, remain int
	}{{23 * time.Hour, 0, 3}, {2 * time.Hour, 2, 1}} {
		_ = clock.Sleep(t.Context(), step.later)
		if n, err := b.CleanTemps(t.Context()); err != nil || n != step.n || uploads(t) != step.remain {
			t.Errorf("%v later: %d were given up, %v; %d are left", step.later, n, err, uploads(t))
		}
	}
}
