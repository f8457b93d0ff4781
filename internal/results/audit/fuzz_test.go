package audit

import (
	"testing"
	"time"

	"latentbeam/internal/results/report"
	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/storetest"
)

// FuzzSummary: whatever the summary of an output contains, readers of the output return a result or an error, and do not remove
// it.
func FuzzSummary(f *testing.F) {
	f.Add([]byte(`{"version": 1, "state": "complete", "files": {"index.html": 3, "tables/videos/a.parquet": 7}, "totals": {"done": 1}, "config": {}}`))
	f.Add([]byte(`{"state": "complete", "files": {"../a": -1, "": 9223372036854775807}, "totals": {"done": -1}}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := storetest.NewMemory().Open(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Put(t.Context(), store.Object{Name: "summary.json", Data: data},
			store.Object{Name: "index.html", Data: []byte("abc")}); err != nil {
			t.Fatal(err)
		}
		_, _ = report.ReadSummary(t.Context(), s, "summary.json")
		_, _ = Verify(t.Context(), s)
		_, _ = Clean(t.Context(), s, CleanOptions{Apply: true, Now: time.Now()})
		if _, err := s.Stat(t.Context(), "summary.json"); err != nil {
			t.Fatal(err)
		}
	})
}
