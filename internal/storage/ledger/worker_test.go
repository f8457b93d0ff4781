package ledger

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/dir"
)

const lockName = ".lock"

// elementsMax bounds the elements of a worker in these tests.
const elementsMax = 400

// elements are made once: the tests compare with them very often.
var elements = sync.OnceValue(func() (all [elementsMax]struct {
	payload []byte
	record  Record
}) {
	rng := rand.New(rand.NewChaCha8([32]byte([]byte("the payloads of the crash tests."))))
	for i := range all {
		all[i].payload = make([]byte, 3000+i)
		for k := range all[i].payload {
			all[i].payload[k] = byte(rng.Uint32())
		}
		all[i].record = newElement(i, all[i].payload)
	}
	return all
})

// payload is the whole content of element i's file, payloadName what it is published as.
func payload(i int) []byte { return elements()[i].payload }

func payloadName(i int) string {
	key := keyOf(i).String()
	return "videos/" + key[:2] + "/" + key + ".mp4"
}

// element is what the worker records: every fourth one fails.
func element(i int) Record { return elements()[i].record }

func newElement(i int, payload []byte) Record {
	if i%4 == 3 {
		return Record{Key: keyOf(i), Status: Failed, Row: fmt.Appendf(nil, `{"id":%d,"why":"NaN"}`, i)}
	}
	sum := sha256.Sum256(payload)
	return Record{
		Key: keyOf(i), Status: Done, Row: fmt.Appendf(nil, `{"id":%d,"sha256":"%x"}`, i, sum),
		Blobs: []Blob{{Name: "latents", Data: payload[:500]}},
	}
}

// work does the elements 0 to n-1 in batches of two, in the order of decision 033, and skips
// what an earlier life has done. compact adds the two things that a job does once at its end.
// acked is told of each element that is safe.
func work(ctx context.Context, d *dir.Dir, n int, compact bool, acked func(int)) error {
	release, err := d.Lock(ctx, lockName, "crash test")
	if err != nil {
		return err
	}
	defer release()
	if _, err := d.CleanTemps(ctx); err != nil {
		return err
	}
	l, err := Open(ctx, d)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := l.Mend(ctx); err != nil {
		return err
	}
	todo := make([]int, 0, n)
	for i := range n {
		if _, status, err := l.Lookup(keyOf(i)); err != nil {
			return err
		} else if status == Absent {
			todo = append(todo, i)
		}
	}
	for batch := range slices.Chunk(todo, 2) {
		var objects []store.Object
		var recs []Record
		for _, i := range batch {
			if rec := element(i); rec.Status == Done {
				objects = append(objects, store.Object{Name: payloadName(i), Data: payload(i)})
			}
			recs = append(recs, element(i))
		}
		if err := d.Put(ctx, objects...); err != nil {
			return err
		}
		if err := l.Commit(ctx, recs); err != nil {
			return err
		}
		for _, i := range batch {
			acked(i)
		}
	}
	if !compact {
		return nil
	}
	if err := l.Compact(ctx, func(Record) (bool, bool) { return true, true }); err != nil {
		return err
	}
	return d.Replace(ctx, "tables/videos", func(w io.Writer) error {
		return l.Each(ctx, func(_ Ref, r Record) error {
			_, err := fmt.Fprintf(w, "%s\n", r.Row)
			return err
		})
	})
}

// verify checks an output that is finished: every element exactly once, every file and blob whole,
// nothing else. It returns what is wrong.
func verify(t *testing.T, d *dir.Dir, n int) (wrong []string) {
	t.Helper()
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	l, err := Open(t.Context(), d)
	if err != nil {
		return []string{err.Error()}
	}
	defer l.Close()
	seen := map[Key]int{}
	if err := l.Each(t.Context(), func(_ Ref, r Record) error { seen[r.Key]++; return nil }); err != nil {
		complain("each: %v", err)
	}
	if l.Len() != n || len(seen) != n {
		complain("%d keys, %d records, want %d", l.Len(), len(seen), n)
	}
	var files []string
	for i := range n {
		want := element(i)
		ref, status, err := l.Lookup(want.Key)
		if err != nil || status != want.Status || seen[want.Key] != 1 {
			complain("element %d: %v, %v, %d times", i, status, err, seen[want.Key])
			continue
		}
		if rec, err := l.Read(ref); err != nil || !bytes.Equal(rec.Row, want.Row) {
			complain("row of %d: %s, %v", i, rec.Row, err)
		}
		if status == Failed {
			continue
		}
		files = append(files, payloadName(i))
		if data, err := store.ReadFile(t.Context(), d, payloadName(i)); err != nil || !bytes.Equal(data, payload(i)) {
			complain("file of %d: %d bytes, %v", i, len(data), err)
		}
		if data, err := l.ReadBlob(ref, "latents"); err != nil || !bytes.Equal(data, want.Blobs[0].Data) {
			complain("blob of %d: %d bytes, %v", i, len(data), err)
		}
	}
	slices.Sort(files)
	if have, err := store.Names(t.Context(), d, "videos/", store.Deep); err != nil || !slices.Equal(have, files) {
		complain("%d videos, %v, want %d", len(have), err, len(files))
	}
	return append(wrong, temporary(t, d)...)
}

// temporary lists temporary files anywhere in the output.
func temporary(t *testing.T, d *dir.Dir) (names []string) {
	t.Helper()
	must(t, filepath.WalkDir(d.Path(), func(path string, _ fs.DirEntry, err error) error {
		if strings.HasPrefix(filepath.Base(path), ".tmp-") {
			names = append(names, "left behind "+path)
		}
		return err
	}))
	return names
}
