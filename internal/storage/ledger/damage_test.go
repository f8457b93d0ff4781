package ledger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/dir"
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

// TestReadErrorIsNotDamage: a disk that does not answer is another thing than a bad file. The next run may read it.
func TestReadErrorIsNotDamage(t *testing.T) {
	r := newReader()
	for _, after := range []int64{0, 40} {
		r.reset("test.seg", failingReader{after}, int64(len(sample())))
		err := r.scan(func(int64, header, []byte) error { return nil })
		_, salvageErr := r.salvage(&DamagedError{}, func(int64, header) {})
		for _, err := range []error{err, salvageErr} {
			if isDamage(err) || fault.ExitCode(err) != fault.ExitTryAgain || !strings.Contains(err.Error(), "disk on fire") {
				t.Errorf("got %v", err)
			}
		}
	}
}

// TestNewerVersionIsRefused: a segment of another version is whole, and not this program's to mend.
func TestNewerVersionIsRefused(t *testing.T) {
	d := openDir(t)
	must(t, openLedger(t, d).Commit(t.Context(), []Record{recordOf(0, 0, Done)}))
	path, data := segmentFile(t, d, 0)
	binary.LittleEndian.PutUint32(data[8:], version+1)
	binary.LittleEndian.PutUint32(data[28:], crc32.Checksum(data[:28], castagnoli))
	must(t, os.WriteFile(path, data, 0o644))
	_, err := Open(t.Context(), d)
	if fault.ExitCode(err) != fault.ExitUsage || !strings.Contains(err.Error(), "newer latentbeam") {
		t.Errorf("a newer version: %v", err)
	}
}

// segmentFile reads segment i of an output.
func segmentFile(t *testing.T, d *dir.Dir, i int) (path string, data []byte) {
	t.Helper()
	names, err := store.Names(t.Context(), d, folder, store.Deep)
	must(t, err)
	path = filepath.Join(d.Path(), names[i])
	data, err = os.ReadFile(path)
	must(t, err)
	return path, data
}

// TestOpenNamesTheDamagedFile: opening goes on, says which file is damaged, and counts what is sound of it.
func TestOpenNamesTheDamagedFile(t *testing.T) {
	d := openDir(t)
	l := openLedger(t, d)
	must(t, l.Commit(t.Context(), []Record{recordOf(0, 0, Done)}))
	must(t, l.Commit(t.Context(), []Record{recordOf(1, 0, Done), recordOf(2, 0, Failed)}))
	path, data := segmentFile(t, d, 1)
	must(t, os.WriteFile(path, data[:len(data)-8], 0o644))
	cut := openLedger(t, d)
	damage := cut.Damaged()
	if len(damage) != 1 || filepath.Base(damage[0].Segment) != filepath.Base(path) || damage[0].Saved != 1 ||
		damage[0].Lost != 1 || damage[0].Bytes == 0 || cut.Len() != 2 || cut.Lost() != 0 {
		t.Errorf("truncated segment: %+v, %d records", damage, cut.Len())
	}
	absent(t, cut, keyOf(2))
	// A reader that has the ledger open meets the damage when it reads.
	data[headerBytes+50] ^= 1
	must(t, os.WriteFile(path, data, 0o644))
	absent(t, l, keyOf(1))
	if l.Lost() != 1 || l.Len() != 2 {
		t.Errorf("%d records lost, %d left", l.Lost(), l.Len())
	}
	checkRecord(t, l, recordOf(2, 0, Failed))
	must(t, os.WriteFile(filepath.Join(d.Path(), "ledger", "mine.seg"), data, 0o644))
	if _, err := Open(t.Context(), d); err == nil || !strings.Contains(err.Error(), "mine.seg") ||
		fault.ExitCode(err) != fault.ExitFatal {
		t.Errorf("foreign segment: %v", err)
	}
}
