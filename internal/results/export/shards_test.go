package export

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/parquet-go/parquet-go"

	"latentbeam/internal/table/write"
)

// TestManyShapes: with very many sizes, none of which fills a row group, buffered rows stay within the limit, and all rows are
// written.
func TestManyShapes(t *testing.T) {
	const shapes, rounds, size = 48, 3, 2 << 20
	dir := t.TempDir()
	f := &shards[fastVideoRow]{out: &out{dir: dir}, options: write.Options{RowGroupBytes: 1 << 30}}
	held, groups := 0, 0
	latent := make([]byte, size)
	for i := range shapes * rounds {
		if err := f.add(fmt.Sprintf("%d", i%shapes)+"/%d.parquet", fastVideoRow{ID: fmt.Sprint(i), VAELatentBytes: latent}); err != nil {
			t.Fatal(err)
		}
		sum := 0
		for _, s := range f.open {
			sum += s.file.rows.Held()
		}
		if sum != f.buffered {
			t.Fatalf("%d bytes are in memory, %d are counted", sum, f.buffered)
		}
		held = max(held, sum)
	}
	if err := f.close(); err != nil || f.buffered != 0 {
		t.Fatalf("%v; %d bytes are left", err, f.buffered)
	}
	rows := int64(0)
	for i := range shapes {
		file, err := os.Open(filepath.Join(dir, fmt.Sprint(i), "0.parquet"))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		info, err := file.Stat()
		if err != nil {
			t.Fatal(err)
		}
		p, err := parquet.OpenFile(file, info.Size())
		if err != nil {
			t.Fatal(err)
		}
		rows += p.NumRows()
		groups += len(p.RowGroups())
	}
	if rows != shapes*rounds || held > maxBuffered+size+4096 || held < maxBuffered/2 || groups <= shapes {
		t.Errorf("%d rows in %d row groups, at most %d MiB in memory", rows, groups, held>>20)
	}
}
