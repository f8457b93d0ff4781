package ledger

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime/debug"
	"testing"
	"time"
)

func numbered(i int) (k Key) {
	binary.BigEndian.PutUint64(k[:], mix(uint64(i)))
	return k
}

// fill commits n records of about 300 bytes in batches.
func fill(t testing.TB, l *Ledger, n, batch int) {
	row := fmt.Appendf(nil, "%0200d", 7)
	recs := make([]Record, 0, batch)
	for i := range n {
		recs = append(recs, Record{Key: numbered(i), Status: Done, Row: row})
		if len(recs) == batch || i == n-1 {
			must(t, l.Commit(t.Context(), recs))
			recs = recs[:0]
		}
	}
}

// TestMillion measures a ledger of a million rows: set LATENTBEAM_LEDGER_ROWS to run it.
func TestMillion(t *testing.T) {
	n := 0
	if fmt.Sscan(os.Getenv("LATENTBEAM_LEDGER_ROWS"), &n); n == 0 {
		t.Skip("set LATENTBEAM_LEDGER_ROWS=1000000 to measure")
	}
	d := openDir(t)
	step := func(what string, fn func()) {
		debug.FreeOSMemory()
		rss, start := procStatus(t, "VmRSS"), time.Now()
		fn()
		took := time.Since(start)
		peak := procStatus(t, "VmHWM")
		debug.FreeOSMemory()
		t.Logf("%-8s %v, %v a row; resident %+.1f bytes a row, peak of the process %d MB",
			what, took.Round(time.Millisecond), took/time.Duration(n),
			float64(procStatus(t, "VmRSS")-rss)/float64(n), peak>>20)
	}
	step("commit", func() { fill(t, openLedger(t, d), n, 1000) })
	var l *Ledger
	step("open", func() { l = openLedger(t, d) })
	step("hit", func() {
		for i := range n {
			if _, status, err := l.Lookup(numbered(i)); status != Done || err != nil {
				t.Fatal(i, status, err)
			}
		}
	})
	step("miss", func() {
		for i := range n {
			if _, status, err := l.Lookup(numbered(n + i)); status != Absent || err != nil {
				t.Fatal(i, status, err)
			}
		}
	})
	step("compact", func() { must(t, l.Compact(t.Context(), func(Record) (bool, bool) { return true, true })) })
	t.Logf("%d segments", l.Segments())
}

func BenchmarkLookup(b *testing.B) {
	l := openLedger(b, openDir(b))
	const n = 100_000
	fill(b, l, n, 5000)
	b.Run("hit", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if _, status, err := l.Lookup(numbered(i * 7919 % n)); status != Done || err != nil {
				b.Fatal(status, err)
			}
		}
	})
	b.Run("miss", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			if _, status, err := l.Lookup(numbered(n + i)); status != Absent || err != nil {
				b.Fatal(status, err)
			}
		}
	})
}

func BenchmarkCommit(b *testing.B) {
	row := []byte(`{"prompt":"a red circle"}`)
	for _, batch := range []int{1, 16, 256} {
		b.Run(fmt.Sprint(batch), func(b *testing.B) {
			l := openLedger(b, openDir(b))
			recs := make([]Record, batch)
			for i := 0; b.Loop(); i++ {
				for k := range recs {
					recs[k] = Record{Key: numbered(i*batch + k), Status: Done, Row: row}
				}
				must(b, l.Commit(b.Context(), recs))
			}
		})
	}
}
