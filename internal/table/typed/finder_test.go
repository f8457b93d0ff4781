package typed

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/parquet-go/parquet-go"

	"latentbeam/schemas"
)

// TestFinder: a Finder returns rows in any order as Read returns them in order, for files with several row groups and pages, and with
// some empty lists.
func TestFinder(t *testing.T) {
	dir := t.TempDir()
	want := map[string][]schemas.EmbeddingRow{}
	rng := rand.New(rand.NewPCG(1, 2))
	for i, page := range []int{200, 1 << 20} {
		path := filepath.Join(dir, fmt.Sprintf("%d.parquet", i))
		var rows []schemas.EmbeddingRow
		for n := range 57 {
			r := schemas.EmbeddingRow{ID: fmt.Sprint(n), TextEmbeddingBytes: make([]byte, rng.IntN(300)),
				TextEmbeddingShape: []int64{int64(n), 4}, TextEmbeddingDType: "float32"}
			for k := range rng.IntN(3) {
				r.LaterEmbeddingClips = append(r.LaterEmbeddingClips, int64(k))
			}
			for k := range r.TextEmbeddingBytes {
				r.TextEmbeddingBytes[k] = byte(rng.Uint32())
			}
			rows = append(rows, r)
		}
		if err := parquet.WriteFile(path, rows, parquet.PageBufferSize(page), parquet.MaxRowsPerRowGroup(20)); err != nil {
			t.Fatal(err)
		}
		for r, err := range Read[schemas.EmbeddingRow](path, true) {
			if err != nil {
				t.Fatal(err)
			}
			want[path] = append(want[path], r)
		}
		if len(want[path]) != len(rows) {
			t.Fatalf("%d rows", len(want[path]))
		}
	}
	var f Finder[schemas.EmbeddingRow]
	defer f.Close()
	check := func(path string, row int) {
		got, err := f.Row(path, int64(row))
		if err != nil || !reflect.DeepEqual(got, want[path][row-1]) {
			t.Fatalf("%s row %d: %v\n got %+v\nwant %+v", path, row, err, got, want[path][row-1])
		}
	}
	for path, rows := range want {
		for i := range rows {
			check(path, i+1)
		}
		for range 200 {
			check(path, 1+rng.IntN(len(rows)))
		}
		if _, err := f.Row(path, 58); err == nil {
			t.Error("a row after the end was found")
		}
		check(path, 1)
	}
}
