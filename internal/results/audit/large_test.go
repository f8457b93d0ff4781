package audit

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"latentbeam/internal/results/report"
	"latentbeam/internal/storage/fingerprints"
	"latentbeam/internal/storage/ledger"
	"latentbeam/internal/storage/store/dir"
	"latentbeam/internal/table/write"
	"latentbeam/schemas"
)

// TestLargeOutput verifies and cleans an output with many rows. It checks that a damaged video and rows without a table entry are
// found, and that memory grows by only some dozens of bytes per row. LATENTBEAM_LARGE is the number of rows.
func TestLargeOutput(t *testing.T) {
	rows := 2000
	if n, err := strconv.Atoi(os.Getenv("LATENTBEAM_LARGE")); err == nil {
		rows = n
	}
	stale := rows / 100
	out := t.TempDir()
	d, err := dir.Open(out)
	check(t, err)
	defer d.Close()
	videos := build(t, d, out, rows, stale)
	heap := watchHeap()
	began := time.Now()
	v, err := Verify(t.Context(), d)
	check(t, err)
	took, most := time.Since(began), heap()
	if !v.Sound() || v.Rows != int64(rows) || v.Undigested > 0 {
		t.Fatalf("%+v", v)
	}
	t.Logf("verify: %d rows, %d files, %d MB in %v, heap at most %d MB", v.Rows, v.Files, v.Bytes>>20, took, most>>20)
	limit := uint64(48<<20 + 400*rows)
	if most > limit {
		t.Errorf("verify took %d bytes of heap, more than %d", most, limit)
	}
	damaged := filepath.Join(out, videos[rows/2])
	data, err := os.ReadFile(damaged)
	check(t, err)
	data[7] ^= 1
	check(t, os.WriteFile(damaged, data, 0o644))
	if v, err = Verify(t.Context(), d); err != nil || v.Counts[Damaged] != 1 || !v.Is(Damaged, videos[rows/2]) {
		t.Errorf("%+v, %v", v.Findings, err)
	}
	heap, began = watchHeap(), time.Now()
	c, err := Clean(t.Context(), d, CleanOptions{Now: time.Now()})
	check(t, err)
	t.Logf("clean, dry run: %d files and %d records are stale, in %v, heap at most %d MB", c.Files, c.Records,
		time.Since(began), heap()>>20)
	began = time.Now()
	if c, err = Clean(t.Context(), d, CleanOptions{Now: time.Now(), Apply: true}); err != nil ||
		c.Records != int64(stale) || c.Files != int64(2*stale) {
		t.Fatalf("%+v, %v", c, err)
	}
	t.Logf("clean --apply: %v", time.Since(began))
	if v, err = Verify(t.Context(), d); err != nil || v.Rows != int64(rows-stale) || len(v.Findings) > 1 {
		t.Errorf("after clean: %+v, %v", v, err)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// watchHeap measures the heap at intervals. The returned function stops the measurement and returns the largest
// growth since the call.
func watchHeap() func() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	before := m.HeapInuse
	var most atomic.Uint64
	quit, done := make(chan bool), make(chan bool)
	go func() {
		defer close(done)
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most.Store(max(most.Load(), m.HeapInuse))
			select {
			case <-quit:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return func() uint64 {
		close(quit)
		<-done
		return max(most.Load(), before) - before
	}
}

// build writes an output of which the last rows are in no table, and returns the names of its videos.
func build(t *testing.T, d *dir.Dir, out string, rows, stale int) (videos []string) {
	t.Helper()
	l, err := ledger.Open(t.Context(), d)
	check(t, err)
	defer l.Close()
	w, err := fingerprints.LoadWitness(t.Context(), d)
	check(t, err)
	var records []ledger.Record
	var table1 []schemas.VideoRow
	for i := range rows {
		key := sha256.Sum256(binary.AppendUvarint(nil, uint64(i)))
		name := hex.EncodeToString(key[:])
		video := make([]byte, 4096)
		copy(video, fmt.Sprint("video ", i))
		sum, poster := sha256.Sum256(video), video[:900]
		f := schemas.VideoFile{Path: path.Join("videos", name[:2], name+".mp4"), Bytes: 4096, SHA256: hex.EncodeToString(sum[:]),
			Poster: path.Join("posters", name[:2], name+".jpg"), PosterBytes: 900, Codec: "h264"}
		for file, data := range map[string][]byte{f.Path: video, f.Poster: poster} {
			full := filepath.Join(out, filepath.FromSlash(file))
			check(t, os.MkdirAll(filepath.Dir(full), 0o755))
			check(t, os.WriteFile(full, data, 0o644))
		}
		row, err := json.Marshal(schemas.Result{Video: &f})
		check(t, err)
		records = append(records, ledger.Record{Key: key, Status: ledger.Done, Row: row})
		w.SetRow(key, fingerprints.RowState{Mark: 1, Poster: fingerprints.HashSum(sha256.Sum256(poster))})
		videos = append(videos, f.Path)
		if i < rows-stale {
			table1 = append(table1, schemas.VideoRow{ID: fmt.Sprint(i), Key: name, Prompt: "a prompt of some words",
				VideoPath: f.Path, VideoSHA256: f.SHA256})
		}
		if len(records) == 4096 || i == rows-1 {
			check(t, l.Commit(t.Context(), records))
			records = nil
		}
	}
	output := &fingerprints.Output{Store: d, Witness: w}
	j := report.Job{Output: output, Ledger: l}
	check(t, output.Replace(t.Context(), "tables/videos/00000.parquet", func(w io.Writer) error {
		_, err := write.Write(w, all(table1), write.Options{Version: "test"})
		return err
	}))
	check(t, j.WriteSummary(t.Context(), report.Summary{Totals: report.Totals{Rows: int64(rows - stale),
		Done: int64(rows - stale)}, Config: json.RawMessage("{}")}))
	check(t, w.Save(t.Context(), d, "", func(uint64) bool { return true }))
	return videos
}

func all[T any](rows []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, r := range rows {
			if !yield(r, nil) {
				return
			}
		}
	}
}
