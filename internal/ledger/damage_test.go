package ledger

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"latentbeam/internal/store"
	"latentbeam/schemas/fault"
)

func sample() []byte {
	s := newSegment(nil)
	for i, status := range []Status{Done, Failed, Done} {
		r := recordOf(i, 0, status)
		if i == 1 {
			r.Blobs = nil
		}
		s.add(&r)
	}
	return s.seal()
}

// readAll reads every byte of a segment, blob data included, and returns the records.
func readAll(data []byte) (recs []Record, err error) {
	r := newReader()
	r.reset("test.seg", bytes.NewReader(data), int64(len(data)))
	err = r.scan(func(offset int64, h header, body []byte) error {
		rec, entries, err := r.record(offset, h, body)
		if err != nil {
			return err
		}
		for i, e := range entries {
			if rec.Blobs[i].Data, err = r.blob(e); err != nil {
				return err
			}
		}
		recs = append(recs, rec)
		return nil
	})
	return recs, err
}

// TestEveryDamageIsFound cuts a segment at every length and flips every bit of it.
func TestEveryDamageIsFound(t *testing.T) {
	good := sample()
	if recs, err := readAll(good); err != nil || len(recs) != 3 {
		t.Fatalf("undamaged: %d records, %v", len(recs), err)
	}
	check := func(what string, at int, data []byte) {
		_, err := readAll(data)
		var damaged *DamagedError
		if !errors.As(err, &damaged) || damaged.Segment != "test.seg" {
			t.Errorf("%s %d: %v", what, at, err)
		}
	}
	for n := range good {
		check("cut at", n, good[:n])
	}
	check("one byte more than", len(good), append(bytes.Clone(good), 0))
	for i := range len(good) * 8 {
		bad := bytes.Clone(good)
		bad[i/8] ^= 1 << (i % 8)
		check("flipped bit", i, bad)
	}
}

type failingReader struct{ after int64 }

func (f failingReader) ReadAt(b []byte, at int64) (int, error) {
	if at+int64(len(b)) > f.after {
		return 0, errors.New("disk on fire")
	}
	return bytes.NewReader(sample()).ReadAt(b, at)
}

// TestReadErrorIsNotDamage: a disk that does not answer is another thing than a bad file.
func TestReadErrorIsNotDamage(t *testing.T) {
	r := newReader()
	r.reset("test.seg", failingReader{40}, int64(len(sample())))
	err := r.scan(func(int64, header, []byte) error { return nil })
	var damaged *DamagedError
	if err == nil || errors.As(err, &damaged) || !strings.Contains(err.Error(), "disk on fire") {
		t.Errorf("got %v", err)
	}
}

func TestOpenNamesTheDamagedFile(t *testing.T) {
	d := openDir(t)
	l := openLedger(t, d)
	must(t, l.Commit(t.Context(), []Record{recordOf(0, 0, Done)}))
	must(t, l.Commit(t.Context(), []Record{recordOf(1, 0, Done)}))
	names, err := store.Names(t.Context(), d, folder, store.Deep)
	must(t, err)
	path := filepath.Join(d.Path(), names[1])
	data, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path, data[:len(data)-8], 0o644))
	_, err = Open(t.Context(), d)
	if err == nil || !strings.Contains(err.Error(), names[1]) || fault.ClassOf(err) != fault.ClassFatal {
		t.Errorf("truncated segment: %v", err)
	}
	// A reader that has the ledger open meets the damage when it reads.
	data[headerBytes+50] ^= 1
	must(t, os.WriteFile(path, data, 0o644))
	if _, _, err := l.Lookup(keyOf(1)); err == nil || !strings.Contains(err.Error(), names[1]) {
		t.Errorf("lookup in a damaged segment: %v", err)
	}
	must(t, os.Remove(path)) // what the message says helps
	if l := openLedger(t, d); l.Len() != 1 {
		t.Errorf("after moving the file away: %d records", l.Len())
	}
	must(t, os.WriteFile(filepath.Join(d.Path(), "ledger", "mine.seg"), data, 0o644))
	if _, err := Open(t.Context(), d); err == nil || !strings.Contains(err.Error(), "mine.seg") {
		t.Errorf("foreign segment: %v", err)
	}
}
