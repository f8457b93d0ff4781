package ledger

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"testing"

	"latentbeam/internal/storage/store/dir"
)

// spans are the records of a sound segment, as bytes from and to.
func spans(t *testing.T, data []byte) (all [][2]int) {
	t.Helper()
	r := newReader()
	r.reset("test.seg", bytes.NewReader(data), int64(len(data)))
	must(t, r.scan(func(offset int64, h header, _ []byte) error {
		end := offset + recordHeaderBytes + int64(h.rowBytes) + int64(h.tableBytes) + int64(h.blobBytes)
		all = append(all, [2]int{int(offset), int(end)})
		return nil
	}))
	return all
}

// wound is a segment of several records that something was done to.
type wound struct {
	what  string
	data  []byte
	whole []int // the records of which no byte was touched
	more  bool  // others may be whole too
}

// wounds damages a segment in every way of the issue: each bit, each length, each run of zeros, records in the wrong
// place.
func wounds(t *testing.T, good []byte) (all []wound) {
	at := spans(t, good)
	untouched := func(from, to int) (whole []int) {
		for i, s := range at {
			if to <= s[0] || from >= s[1] {
				whole = append(whole, i)
			}
		}
		return whole
	}
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 1 << (i % 8)
		all = append(all, wound{fmt.Sprint("flipped bit in byte ", i), bad, untouched(i, i+1), false})
	}
	for n := range good {
		all = append(all, wound{fmt.Sprint("cut at ", n), good[:n], untouched(n, len(good)), false})
	}
	for i := 0; i < len(good); i += 64 {
		bad := bytes.Clone(good)
		clear(bad[i:min(i+64, len(bad))])
		all = append(all, wound{fmt.Sprint("zeros at ", i), bad, untouched(i, i+64), true})
	}
	none := untouched(0, 0)
	for i, one := range at {
		end := (one[1] + recordAlign - 1) / recordAlign * recordAlign
		record := good[one[0]:end]
		for k, other := range at {
			twice := slices.Concat(good[:other[0]], record, good[other[0]:])
			all = append(all, wound{fmt.Sprintf("record %d again before %d", i, k), twice, none, false})
			for _, n := range []int{recordHeaderBytes, len(record)} {
				if other[0]+n > len(good) {
					continue
				}
				bad := bytes.Clone(good)
				copy(bad[other[0]:], record[:n])
				all = append(all, wound{fmt.Sprintf("%d bytes of record %d over %d", n, i, k), bad,
					untouched(other[0], other[0]+n), true})
			}
		}
	}
	return append(all, wound{"garbage behind", append(bytes.Clone(good), 1, 2, 3), none, false})
}

// TestNoDamageStopsTheLedger: whatever is done to a segment, the ledger opens, has all records that were not touched,
// and no wrong row or blob; mended, it has the same records and no damage.
func TestNoDamageStopsTheLedger(t *testing.T) {
	var recs []Record
	for i, status := range []Status{Done, Failed, Done, Done} {
		r := recordOf(i, 0, status)
		r.Blobs[0].Data = r.Blobs[0].Data[:60+i] // so that there are paddings of several lengths
		if i == 1 {
			r.Blobs = nil
		}
		recs = append(recs, r)
	}
	fresh := func() (*dir.Dir, string, []byte) {
		d := openDir(t)
		must(t, openLedger(t, d).Commit(t.Context(), recs))
		must(t, openLedger(t, d).Commit(t.Context(), []Record{recordOf(9, 0, Done)}))
		path, data := segmentFile(t, d, 0)
		return d, path, data
	}
	d, path, good := fresh()
	all := wounds(t, good)
	for i, w := range all {
		if bytes.Equal(w.data, good) {
			continue
		}
		must(t, os.WriteFile(path, w.data, 0o644))
		checkWound(t, d, w, recs, i%50 == 0)
		if _, err := os.Stat(path); err != nil { // it was mended
			d, path, _ = fresh()
		}
	}
	t.Logf("%d kinds of damage to %d bytes", len(all), len(good))
}

func checkWound(t *testing.T, d *dir.Dir, w wound, recs []Record, mend bool) {
	l, err := Open(t.Context(), d)
	if err != nil {
		t.Errorf("%s: %v", w.what, err)
		return
	}
	defer l.Close()
	must(t, l.Verify(t.Context())) // for a blob that is damaged alone
	switch damage := l.Damaged(); {
	case len(damage) == 0: // a record has taken the place of another without a seam
		if _, err := readAll(w.data); err != nil {
			t.Errorf("%s: no damage, but %v", w.what, err)
		}
	case len(damage) != 1 || damage[0].Saved < len(w.whole):
		t.Errorf("%s: the damage is %+v, %d records are whole", w.what, damage, len(w.whole))
	case damage[0].Lost > 0 && damage[0].Lost+damage[0].Saved != len(recs):
		t.Errorf("%s: %+v of %d records", w.what, damage[0], len(recs))
	}
	check := func(l *Ledger) {
		checkRecord(t, l, recordOf(9, 0, Done))
		n := 1
		for i, r := range recs {
			_, status, err := l.Lookup(r.Key)
			whole := slices.Contains(w.whole, i)
			if err != nil || whole && status == Absent || !whole && !w.more && status != Absent {
				t.Errorf("%s: record %d is %v, %v; whole: %v", w.what, i, status, err, whole)
			}
			if status != Absent {
				n++
				checkRecord(t, l, r)
			}
		}
		seen := 0
		must(t, l.Each(t.Context(), func(Ref, Record) error { seen++; return nil }))
		if l.Len() != n || seen != n {
			t.Errorf("%s: %d records, %d seen, want %d", w.what, l.Len(), seen, n)
		}
	}
	check(l)
	if mend {
		must(t, l.Mend(t.Context()))
		again := openLedger(t, d)
		check(l)
		check(again)
		if len(l.Damaged())+len(again.Damaged()) > 0 || l.Segments() != again.Segments() {
			t.Errorf("%s: after mending %+v, %+v", w.what, l.Damaged(), again.Damaged())
		}
	}
}

// TestDamageWhileOpen damages a segment that is open and indexed, and lets every way of reading meet that: a record is
// as it was or absent, and once it was found damaged it stays so.
func TestDamageWhileOpen(t *testing.T) {
	recs := []Record{recordOf(0, 0, Done), recordOf(1, 0, Done), recordOf(2, 0, Failed)}
	d := openDir(t)
	must(t, openLedger(t, d).Commit(t.Context(), recs))
	path, good := segmentFile(t, d, 0)
	whole := func(rec Record, err error) bool {
		if err != nil {
			t.Fatal(err)
		}
		want := recs[slices.IndexFunc(recs, func(r Record) bool { return r.Key == rec.Key })]
		if rec.Status != Absent && (rec.Status != want.Status || !bytes.Equal(rec.Row, want.Row)) {
			t.Errorf("a wrong record: %+v", rec)
		}
		return rec.Status != Absent
	}
	for _, how := range []string{"find", "each", "forget", "verify"} {
		for i := 0; i < len(good); i += 3 {
			must(t, os.WriteFile(path, good, 0o644))
			l := openLedger(t, d)
			bad := bytes.Clone(good)
			bad[i] ^= 1 << (i % 8)
			must(t, os.WriteFile(path, bad, 0o644))
			switch how {
			case "each":
				must(t, l.Each(t.Context(), func(_ Ref, r Record) error { whole(r, nil); return nil }))
			case "forget":
				_, err := l.ForgetIf(t.Context(), func(r Record) bool { whole(r, nil); return false })
				must(t, err)
			case "verify":
				must(t, l.Verify(t.Context()))
			}
			c := l.Cursor()
			left := 0
			for _, want := range recs {
				there := whole(c.Find(want.Key))
				for _, b := range want.Blobs {
					if !there {
						break
					}
					data, err := c.Blob(b.Name)
					if err != nil && (!isDamage(err) || how == "verify") || err == nil && !bytes.Equal(data, b.Data) {
						t.Errorf("%s, byte %d: blob %q: %v", how, i, b.Name, err)
					}
					there = err == nil
				}
				if there {
					left++
				}
			}
			c.Close()
			if left < 2 || l.Len() != left || l.Lost() != 3-left {
				t.Errorf("%s, byte %d: %d records are left, the ledger has %d and lost %d", how, i, left, l.Len(), l.Lost())
			}
			l.Close()
		}
	}
}

// TestCompactMeetsDamage: what is damaged by the time of Compact is left out, and the rest is not lost.
func TestCompactMeetsDamage(t *testing.T) {
	recs := []Record{recordOf(0, 0, Done), recordOf(1, 0, Done), recordOf(2, 0, Failed)}
	good := func() []byte {
		s := newSegment(nil)
		for i := range recs {
			s.add(&recs[i])
		}
		return s.seal()
	}()
	for i := 0; i < len(good); i += 40 {
		for _, blobs := range []bool{true, false} {
			d := openDir(t)
			l := openLedger(t, d)
			must(t, l.Commit(t.Context(), recs))
			path, bad := segmentFile(t, d, 0)
			bad[i] ^= 1 << (i % 8)
			must(t, os.WriteFile(path, bad, 0o644))
			must(t, l.Compact(t.Context(), func(Record) (bool, bool) { return true, blobs }))
			again := openLedger(t, d)
			if l.Len() < 2 || again.Len() < l.Len() || again.Segments() != 1 || len(again.Damaged()) > 0 {
				t.Errorf("byte %d: %d records, %d after opening, damage %+v", i, l.Len(), again.Len(), again.Damaged())
			}
			for _, want := range recs {
				if _, status, err := again.Lookup(want.Key); err != nil {
					t.Error(err)
				} else if status != Absent {
					if !blobs {
						want.Blobs = nil
					}
					checkRecord(t, again, want)
				}
			}
		}
	}
}

// TestOlderRecordCountsAgain: where a record is damaged as the ledger is opened, the one that it had taken the place of
// counts.
func TestOlderRecordCountsAgain(t *testing.T) {
	d := openDir(t)
	l := openLedger(t, d)
	must(t, l.Commit(t.Context(), []Record{recordOf(0, 0, Done), recordOf(1, 0, Done)}))
	must(t, l.Commit(t.Context(), []Record{recordOf(0, 1, Done), recordOf(1, 1, Done)}))
	path, data := segmentFile(t, d, 1)
	data[spans(t, data)[0][0]+recordHeaderBytes] ^= 1
	must(t, os.WriteFile(path, data, 0o644))
	l = openLedger(t, d)
	must(t, l.Mend(t.Context()))
	for _, l := range []*Ledger{l, openLedger(t, d)} {
		checkRecord(t, l, recordOf(0, 0, Done))
		checkRecord(t, l, recordOf(1, 1, Done))
	}
}
