package ledger

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"latentbeam/internal/storage/store/dir"
)

func openDir(t testing.TB) *dir.Dir {
	t.Helper()
	d, err := dir.Open(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func openLedger(t testing.TB, d *dir.Dir) *Ledger {
	t.Helper()
	l, err := Open(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// must ends the test where a step of it did not work.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func keyOf(i int) Key { return sha256.Sum256(fmt.Appendf(nil, "element %d", i)) }

// recordOf is a record whose every byte depends on i and try.
func recordOf(i, try int, status Status) Record {
	return Record{
		Key: keyOf(i), Status: status, Row: fmt.Appendf(nil, `{"id":%d,"try":%d}`, i, try),
		Blobs: []Blob{
			{Name: "latents", Data: bytes.Repeat([]byte{byte(i), byte(try), 7}, 100+i)},
			{Name: "empty", Data: []byte{}},
		},
	}
}

// checkRecord reads everything the ledger has on a key and compares it.
func checkRecord(t *testing.T, l *Ledger, want Record) {
	t.Helper()
	ref, status, err := l.Lookup(want.Key)
	if err != nil || status != want.Status {
		t.Errorf("look up %v: %v, %v, want %v", want.Key, status, err, want.Status)
		return
	}
	got, err := l.Read(ref)
	if err != nil || got.Key != want.Key || got.Status != want.Status || !bytes.Equal(got.Row, want.Row) ||
		len(got.Blobs) != len(want.Blobs) {
		t.Errorf("read %v: %+v, %v, want %+v", want.Key, got, err, want)
		return
	}
	for i, b := range want.Blobs {
		data, err := l.ReadBlob(ref, b.Name)
		if err != nil || !bytes.Equal(data, b.Data) || got.Blobs[i].Name != b.Name ||
			got.Blobs[i].Size != int64(len(b.Data)) {
			t.Errorf("blob %q of %v: %d bytes, %v", b.Name, want.Key, len(data), err)
		}
	}
	c := l.Cursor()
	defer c.Close()
	checkCursor(t, c, want)
}

// checkCursor does the same with a cursor.
func checkCursor(t *testing.T, c *Cursor, want Record) {
	t.Helper()
	got, err := c.Find(want.Key)
	if err != nil || got.Key != want.Key || got.Status != want.Status || !bytes.Equal(got.Row, want.Row) ||
		len(got.Blobs) != len(want.Blobs) {
		t.Errorf("find %v: %+v, %v, want %+v", want.Key, got, err, want)
		return
	}
	for i, b := range want.Blobs {
		data, err := c.Blob(b.Name)
		if err != nil || !bytes.Equal(data, b.Data) || got.Blobs[i].Name != b.Name ||
			got.Blobs[i].Size != int64(len(b.Data)) {
			t.Errorf("blob %q of %v: %d bytes, %v", b.Name, want.Key, len(data), err)
		}
	}
}

func absent(t *testing.T, l *Ledger, key Key) {
	t.Helper()
	if _, status, err := l.Lookup(key); status != Absent || err != nil {
		t.Errorf("look up %v: %v, %v, want absent", key, status, err)
	}
}

func TestCommitLookupReopen(t *testing.T) {
	d := openDir(t)
	l := openLedger(t, d)
	absent(t, l, keyOf(0))
	var all []Record
	for i := range 40 {
		status := Done
		if i%5 == 4 {
			status = Failed
		}
		all = append(all, recordOf(i, 0, status))
	}
	for batch := range slices.Chunk(all, 7) {
		must(t, l.Commit(t.Context(), batch))
	}
	must(t, l.Commit(t.Context(), nil))
	for _, l := range []*Ledger{l, openLedger(t, d)} {
		if l.Len() != 40 || l.Count(Done) != 32 || l.Count(Failed) != 8 || l.Segments() != 6 {
			t.Errorf("len %d, done %d, failed %d, segments %d",
				l.Len(), l.Count(Done), l.Count(Failed), l.Segments())
		}
		for _, r := range all {
			checkRecord(t, l, r)
		}
		absent(t, l, keyOf(40))
		n := 0
		must(t, l.Each(t.Context(), func(ref Ref, r Record) error {
			if r.Key != all[n].Key || !bytes.Equal(r.Row, all[n].Row) {
				t.Errorf("record %d is %s", n, r.Row)
			}
			n++
			return nil
		}))
		if n != 40 {
			t.Errorf("Each gave %d records", n)
		}
	}
}

// TestWhichRecordCounts: done beats failed, then the later one, the same after a reopening.
func TestWhichRecordCounts(t *testing.T) {
	d, ctx := openDir(t), t.Context()
	l := openLedger(t, d)
	must(t, l.Commit(ctx, []Record{
		recordOf(0, 0, Failed), recordOf(1, 0, Done), recordOf(2, 0, Failed), recordOf(3, 0, Done),
	}))
	l = openLedger(t, d) // a later generation
	must(t, l.Commit(ctx, []Record{
		recordOf(0, 1, Failed), recordOf(1, 1, Failed), recordOf(2, 1, Done), recordOf(3, 1, Done),
	}))
	must(t, l.Commit(ctx, []Record{recordOf(0, 2, Failed), recordOf(0, 3, Failed)}))
	for _, l := range []*Ledger{l, openLedger(t, d)} {
		checkRecord(t, l, recordOf(0, 3, Failed))
		checkRecord(t, l, recordOf(1, 0, Done))
		checkRecord(t, l, recordOf(2, 1, Done))
		checkRecord(t, l, recordOf(3, 1, Done))
		if l.Len() != 4 || l.Count(Failed) != 1 {
			t.Errorf("len %d, failed %d", l.Len(), l.Count(Failed))
		}
	}
	if n := l.Forget(Failed); n != 1 || l.Len() != 3 || l.Forget(Absent) != 0 {
		t.Errorf("forgot %d, %d left", n, l.Len())
	}
	absent(t, l, keyOf(0))
	checkRecord(t, openLedger(t, d), recordOf(0, 3, Failed)) // an interrupted retry forgets nothing
	must(t, l.Commit(ctx, []Record{recordOf(0, 4, Done)}))
	checkRecord(t, l, recordOf(0, 4, Done))
	checkRecord(t, openLedger(t, d), recordOf(0, 4, Done))
}

// TestEqualFingerprints: keys that share the eight bytes in the index are told apart.
func TestEqualFingerprints(t *testing.T) {
	d, ctx := openDir(t), t.Context()
	l := openLedger(t, d)
	var recs []Record
	for i := range 200 {
		r := recordOf(i, 0, Done)
		copy(r.Key[:8], "samesame")
		recs = append(recs, r)
	}
	must(t, l.Commit(ctx, recs[:199]))
	for _, l := range []*Ledger{l, openLedger(t, d)} {
		for _, r := range recs[:199] {
			checkRecord(t, l, r)
		}
		absent(t, l, recs[199].Key)
	}
	must(t, l.Compact(ctx, func(r Record) (bool, bool) { return r.Key != recs[17].Key, true }))
	absent(t, l, recs[17].Key)
	checkRecord(t, l, recs[18])
	checkRecord(t, l, recs[198])
}

func TestRefusedRecords(t *testing.T) {
	l := openLedger(t, openDir(t))
	many := make([]Blob, blobsMax+1)
	for i := range many {
		many[i].Name = fmt.Sprint(i)
	}
	for want, r := range map[string]Record{
		"absent cannot be recorded": {Status: Absent},
		"status 9":                  {Status: 9},
		"the row has":               {Status: Done, Row: make([]byte, rowBytesMax+1)},
		"65 blobs":                  {Status: Done, Blobs: many},
		"two blobs are called":      {Status: Done, Blobs: []Blob{{Name: "a"}, {Name: "a"}}},
		"blob name":                 {Status: Done, Blobs: []Blob{{Name: strings.Repeat("n", 256)}}},
	} {
		err := l.Commit(t.Context(), []Record{recordOf(1, 0, Done), r})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
	if l.Len() != 0 || l.Segments() != 0 {
		t.Error("a refused commit wrote something")
	}
	if _, err := l.Read(Ref{}); err == nil {
		t.Error("read the zero Ref")
	}
}

// TestFailedCommit: what was not published is not in the index, and the ledger goes on.
func TestFailedCommit(t *testing.T) {
	d, ctx := openDir(t), t.Context()
	l := openLedger(t, d)
	must(t, l.Commit(ctx, []Record{recordOf(0, 0, Done)}))
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if err := l.Commit(cancelled, []Record{recordOf(1, 0, Done)}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled commit: %v", err)
	}
	absent(t, l, keyOf(1))
	must(t, l.Commit(ctx, []Record{recordOf(2, 0, Done)}))
	if l.Segments() != 2 {
		t.Errorf("%d segments", l.Segments())
	}
	n := 0
	must(t, l.Each(ctx, func(Ref, Record) error { n++; return nil }))
	must(t, l.Compact(ctx, func(Record) (bool, bool) { return true, true }))
	if n != 2 || l.Len() != 2 || l.Segments() != 1 {
		t.Errorf("%d records, %d after Compact in %d segments", n, l.Len(), l.Segments())
	}
}

func TestConcurrentUse(t *testing.T) {
	d := openDir(t)
	l := openLedger(t, d)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 20 {
				n := w*20 + i
				recs := []Record{recordOf(n, 0, Done), recordOf(1000+i, w, Failed)}
				if err := l.Commit(t.Context(), recs); err != nil {
					t.Error(err)
				}
				if _, status, err := l.Lookup(keyOf(n)); status != Done || err != nil {
					t.Errorf("own record: %v, %v", status, err)
				}
				if ref, status, err := l.Lookup(keyOf(1000 + i)); status != Failed || err != nil {
					t.Errorf("shared record: %v, %v", status, err)
				} else if _, err := l.Read(ref); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	again := openLedger(t, d)
	for _, l := range []*Ledger{l, again} {
		if l.Len() != 180 || l.Segments() != 160 {
			t.Errorf("len %d, segments %d", l.Len(), l.Segments())
		}
	}
	for i := range 20 { // both sides agree which of eight equals counts
		a, _, _ := l.Lookup(keyOf(1000 + i))
		b, _, _ := again.Lookup(keyOf(1000 + i))
		ra, erra := l.Read(a)
		rb, errb := again.Read(b)
		if erra != nil || errb != nil || !bytes.Equal(ra.Row, rb.Row) {
			t.Errorf("before %s %v, after %s %v", ra.Row, erra, rb.Row, errb)
		}
	}
}
