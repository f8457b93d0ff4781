package read

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// fuzzTable reads a table of any bytes: rows or an error, no panic, no more rows than bytes, and every prompt is text.
func fuzzTable(f *testing.F, name string, o Options) {
	path := filepath.Join(f.TempDir(), name)
	f.Fuzz(func(t *testing.T, data []byte) { readAny(t, path, data, len(data), o) })
}

// readAny reads a table that has these bytes, and at most so many bytes when it is unpacked.
func readAny(t *testing.T, path string, data []byte, most int, o Options) {
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := Open([]string{path}, o)
	if err != nil {
		return
	}
	defer p.Close()
	rows := 0
	for rec, err := range p.All() {
		if err != nil {
			return
		}
		if rows++; rows > 8*most+1000 {
			t.Fatalf("%d rows in %d bytes", rows, most)
		}
		if !utf8.ValidString(rec.Row.Prompt) || !utf8.ValidString(rec.Row.ID) || rec.Bad != nil && !utf8.ValidString(rec.Bad.Error()) {
			t.Fatalf("a row that is no text: %+v", rec)
		}
	}
}

// FuzzPacked reads packed tables of any bytes: what is unpacked is bounded too.
func FuzzPacked(f *testing.F) {
	text := []byte("id,prompt,seed\na,a red circle,1\nb,\"two\nlines\",\n")
	var gz bytes.Buffer
	w := gzip.NewWriter(&gz)
	if _, err := w.Write(text); err != nil || w.Close() != nil {
		f.Fatal("gzip does not write")
	}
	z, err := zstd.NewWriter(nil)
	if err != nil {
		f.Fatal(err)
	}
	for _, data := range [][]byte{text, bytes.Repeat([]byte("\n"), 3<<20)} {
		f.Add(true, z.EncodeAll(data, nil))
	}
	f.Add(false, gz.Bytes())
	f.Add(false, gz.Bytes()[:gz.Len()-6])
	f.Add(false, append(bytes.Clone(gz.Bytes()), gz.Bytes()...))
	folder := f.TempDir()
	f.Fuzz(func(t *testing.T, zst bool, data []byte) {
		name := "t.csv.gz"
		if zst {
			name = "t.csv.zst"
		}
		readAny(t, filepath.Join(folder, name), data, minUnpacked+maxUnpacked*len(data), Options{})
	})
}

// TestUnpackedTooMuch has a file of few bytes that would fill a disk.
func TestUnpackedTooMuch(t *testing.T) {
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "bomb.csv.zst")
	data := z.EncodeAll(bytes.Repeat([]byte("prompt\n"), 8<<20), nil)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Open([]string{path}, Options{})
	if err == nil || !strings.Contains(err.Error(), "this is no table") || !strings.Contains(err.Error(), path) {
		t.Errorf("%d bytes of 56 MB: %v", len(data), err)
	}
}

// FuzzParquet is fuzzTable of parquet.
func FuzzParquet(f *testing.F) {
	for _, pattern := range []string{"testdata/foreign/*.parquet", "testdata/malformed/*.parquet"} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			if len(data) < 1<<14 {
				f.Add(data)
			}
		}
	}
	fuzzTable(f, "t.parquet", Options{})
}

// FuzzCSV is fuzzTable of csv.
func FuzzCSV(f *testing.F) {
	f.Add([]byte("id,prompt,seed\na,a red circle,1\nb,\"two\nlines, \"\"quoted\"\"\",\n"))
	f.Add([]byte("\xef\xbb\xbfprompt\r\n\xff\r\n\x00\r\n"))
	f.Add([]byte("id;prompt\na;b\n"))
	fuzzTable(f, "t.csv", Options{})
}

// FuzzJSONL is fuzzTable of lines of JSON.
func FuzzJSONL(f *testing.F) {
	f.Add([]byte("{\"prompt\": \"a\", \"seed\": 1}\n{\"prompt\": [1], \"height\": 1e400}\n{\"prompt\": \"\\ud800\"}\n"))
	f.Add([]byte("{\"id\": {\"a\": [null]}, \"prompt\": null}\n\n{"))
	fuzzTable(f, "t.jsonl", Options{})
}

// FuzzTar is fuzzTable of tars as WebDataset has them.
func FuzzTar(f *testing.F) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, m := range [][2]string{{"a/1.mp4", "frames"}, {"a/1.txt", "a red circle"},
		{"a/1.json", `{"n": 1, "caption": "b", "l": [1, {"x": null}]}`},
		{"a/2.png", ""}, {"a/2.jpg", "two"}, {"3.mp4.part", "x"}} {
		if err := w.WriteHeader(&tar.Header{Name: m[0], Mode: 0o600, Size: int64(len(m[1]))}); err != nil {
			f.Fatal(err)
		}
		if _, err := w.Write([]byte(m[1])); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(bytes.Clone(b.Bytes())) // without its end
	if err := w.Close(); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	fuzzTable(f, "t.tar", Options{Media: true})
}
