package ledger

import (
	"strings"
	"testing"

	"latentbeam/internal/storage/store"
)

func TestCompact(t *testing.T) {
	d, ctx := openDir(t), t.Context()
	l := openLedger(t, d)
	for i := range 30 {
		must(t, l.Commit(ctx, []Record{recordOf(i, 0, Failed), recordOf(i+100, 0, Done)}))
	}
	for i := range 10 {
		must(t, l.Commit(ctx, []Record{recordOf(i, 1, Done)}))
	}
	old, _, err := l.Lookup(keyOf(100))
	must(t, err)
	dropped, bare := keyOf(105), keyOf(106)
	must(t, l.Compact(ctx, func(r Record) (bool, bool) { return r.Key != dropped, r.Key != bare }))
	if _, err := l.Read(old); err == nil || !strings.Contains(err.Error(), "Compact has removed") {
		t.Errorf("a reference from before Compact: %v", err)
	}
	names, err := store.Names(t.Context(), d, folder, store.Deep)
	if err != nil || len(names) != 1 || l.Segments() != 1 {
		t.Errorf("files %v, %v, segments %d", names, err, l.Segments())
	}
	must(t, l.Commit(ctx, []Record{recordOf(500, 0, Done)})) // it goes on after Compact
	for _, l := range []*Ledger{l, openLedger(t, d)} {
		if l.Len() != 60 || l.Count(Failed) != 20 {
			t.Errorf("len %d, failed %d", l.Len(), l.Count(Failed))
		}
		checkRecord(t, l, recordOf(3, 1, Done))
		checkRecord(t, l, recordOf(20, 0, Failed))
		checkRecord(t, l, recordOf(100, 0, Done))
		checkRecord(t, l, recordOf(500, 0, Done))
		absent(t, l, dropped)
		without := recordOf(106, 0, Done)
		without.Blobs = nil
		checkRecord(t, l, without)
	}
	must(t, l.Compact(ctx, func(Record) (bool, bool) { return false, false }))
	if names, _ := store.Names(t.Context(), d, folder, store.Deep); len(names) != 0 || l.Len() != 0 || l.Segments() != 0 {
		t.Errorf("after dropping all: files %v, len %d", names, l.Len())
	}
}

// TestCompactIntoSeveral: a compaction larger than its buffer writes more than one segment.
func TestCompactIntoSeveral(t *testing.T) {
	d, ctx := openDir(t), t.Context()
	l := openLedger(t, d)
	big := make([]byte, compactBytes/3)
	for i := range 5 {
		r := Record{Key: keyOf(i), Status: Done, Row: []byte("{}"), Blobs: []Blob{{Name: "big", Data: big}}}
		must(t, l.Commit(ctx, []Record{r}))
	}
	must(t, l.Compact(ctx, func(Record) (bool, bool) { return true, true }))
	if l.Segments() != 2 || l.Len() != 5 {
		t.Errorf("%d segments, %d records", l.Segments(), l.Len())
	}
	for i := range 5 {
		ref, _, err := l.Lookup(keyOf(i))
		must(t, err)
		if data, err := l.ReadBlob(ref, "big"); err != nil || len(data) != len(big) {
			t.Errorf("blob of %d: %d bytes, %v", i, len(data), err)
		}
		_, err = l.ReadBlob(ref, "small")
		if err == nil || !strings.Contains(err.Error(), `no blob "small"`) {
			t.Errorf("a blob that does not exist: %v", err)
		}
	}
}
