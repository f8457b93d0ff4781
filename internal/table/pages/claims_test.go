package pages

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// claim is a number of 2^28 - 1 values, bytes or elements, wherever a file has one.
var claim = []byte{0xfe, 0xff, 0xff, 0xff, 0x01}

// memory is a file in memory.
type memory struct{ *bytes.Reader }

func (memory) Close() error { return nil }

// TestClaims writes a huge number at every place of pages that no checksum guards: in headers, levels, runs and deltas. With
// parquet-go 0.32.0 alone, or arrow-go 18.4.1, many of these files end the process: out of memory.
func TestClaims(t *testing.T) {
	files, err := filepath.Glob("../read/testdata/pyarrow/plain-?.parquet")
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		whole, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		footer := len(whole) - 8 - int(binary.LittleEndian.Uint32(whole[len(whole)-8:]))
		if rows, err := readAll(whole); rows != 12 || err != nil {
			t.Fatalf("%s has %d rows: %v", name, rows, err)
		}
		refused := 0
		for at := len(parquetMagic); at < footer; at++ {
			data := bytes.Clone(whole)
			copy(data[at:footer], claim)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := readAll(data)
			runtime.ReadMemStats(&after)
			if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 16<<20 {
				t.Errorf("%s: a claim at byte %d allocates %d bytes", name, at, allocated)
			}
			if err != nil {
				refused++
			}
		}
		if refused < footer/2 {
			t.Errorf("%s: %d of %d claims are refused", name, refused, footer)
		}
	}
}

// readAll reads all columns of a file and says how many rows it has. Rows of damaged pages count, too.
func readAll(data []byte) (rows int, err error) {
	file, err := OpenReader("t.parquet", memory{bytes.NewReader(data)})
	if err != nil {
		return 0, err
	}
	var leaves []*Leaf
	defer func() {
		for _, leaf := range leaves {
			leaf.Close()
		}
	}()
	for _, column := range LeavesOf(file.Root()) {
		leaves = append(leaves, &Leaf{Column: column})
	}
	cursor := Cursor{File: file, MaxPage: MaxPromptPageBytes, Leaves: func(yield func(string, *Leaf) bool) {
		for _, leaf := range leaves {
			if !yield(leaf.Column.Name(), leaf) {
				return
			}
		}
	}}
	var damaged error
	for {
		if err := cursor.Next(); err != nil {
			if errors.Is(err, io.EOF) {
				err = damaged
			}
			return rows, err
		}
		rows++
		for _, leaf := range leaves {
			err := Guarded(func() error { return readRow(leaf) })
			var damage *DamageError
			if errors.As(err, &damage) {
				damaged = err
			} else if err != nil {
				return rows, err
			}
		}
	}
}

// readRow reads the values of a row of a column.
func readRow(leaf *Leaf) error {
	for more := true; more; {
		if _, err := leaf.Next(); err != nil || leaf.Column.MaxRepetitionLevel() == 0 {
			return err
		}
		var err error
		if more, err = leaf.Continues(); err != nil {
			return err
		}
	}
	return nil
}
