package report

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"latentbeam/stages"
)

// TestSizeOfReport measures a report of many rows: LATENTBEAM_REPORT_ROWS=100000 go test -run SizeOfReport -v
func TestSizeOfReport(t *testing.T) {
	rows, err := strconv.Atoi(os.Getenv("LATENTBEAM_REPORT_ROWS"))
	if err != nil {
		t.Skip("set LATENTBEAM_REPORT_ROWS")
	}
	in := make(input, rows)
	for i := range in {
		in[i] = fmt.Sprintf("row-%07d", i)
		if i%10 == 9 {
			in[i] = "bad" // a tenth fails
		}
	}
	j := newJob(t, in)
	j.Keep = map[stages.Kind]bool{stages.KindVideo: true}
	for i := 0; i < rows; i += 10_000 {
		j.settle(t, 4, in[i:min(rows, i+10_000)]...)
	}
	runtime.GC()
	var before, most runtime.MemStats
	runtime.ReadMemStats(&before)
	quit, done := make(chan struct{}), make(chan uint64)
	go func() {
		peak := uint64(0)
		for {
			select {
			case <-time.After(20 * time.Millisecond):
				runtime.ReadMemStats(&most)
				peak = max(peak, most.HeapAlloc)
			case <-quit:
				done <- peak
				return
			}
		}
	}()
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"while the job runs", func() error { return j.WriteEarly(t.Context(), 0) }},
		{"at its end", func() error { _, err := j.Write(t.Context()); return err }},
	} {
		began := time.Now()
		must(t, step.do())
		t.Logf("%s: %v", step.name, time.Since(began).Round(time.Millisecond))
	}
	close(quit)
	t.Logf("heap before %d MB, most %d MB", before.HeapAlloc>>20, <-done>>20)
}
