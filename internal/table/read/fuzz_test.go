package read

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"unicode/utf8"
)

// fuzzTable reads a table of any bytes: rows or an error, no panic, no more rows than bytes, and every prompt is text.
func fuzzTable(f *testing.F, name string, o Options) {
	path := filepath.Join(f.TempDir(), name)
	f.Fuzz(func(t *testing.T, data []byte) {
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
			if rows++; rows > 8*len(data)+1000 {
				t.Fatalf("%d rows in %d bytes", rows, len(data))
			}
			if !utf8.ValidString(rec.Row.Prompt) || !utf8.ValidString(rec.Row.ID) || rec.Bad != nil && !utf8.ValidString(rec.Bad.Error()) {
				t.Fatalf("a row that is no text: %+v", rec)
			}
		}
	})
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
	for _, m := range [][2]string{{"a/1.mp4", "frames"}, {"a/1.txt", "a red circle"}, {"a/1.json", `{"n": 1, "caption": "b", "l": [1, {"x": null}]}`},
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
