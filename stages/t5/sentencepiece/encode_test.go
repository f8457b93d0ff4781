package sentencepiece

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"latentbeam/internal/system/testaid"
)

// golden is one text and its ids by the SentencePiece library 0.2.3 (testdata/make_goldens.py), per model.
type golden struct {
	Text                       []byte
	T5, Symbols, Bytes, Suffix []int32
}

func readGzip(t testing.TB, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func loadTest(t testing.TB, name string) *Model {
	t.Helper()
	m, err := Load(readGzip(t, "testdata/"+name+".model.gz"))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func readGolden(t testing.TB) []golden {
	t.Helper()
	var rows []golden
	d := json.NewDecoder(bytes.NewReader(readGzip(t, "testdata/golden.jsonl.gz")))
	for {
		var g golden
		if err := d.Decode(&g); err == io.EOF {
			return rows
		} else if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, g)
	}
}

func TestEncodeEqualsLibrary(t *testing.T) {
	rows := readGolden(t)
	if len(rows) < 2500 {
		t.Fatalf("only %d golden texts", len(rows))
	}
	models := map[string]func(golden) []int32{
		"t5":      func(g golden) []int32 { return g.T5 },
		"symbols": func(g golden) []int32 { return g.Symbols },
		"bytes":   func(g golden) []int32 { return g.Bytes },
		"suffix":  func(g golden) []int32 { return g.Suffix },
	}
	for name, want := range models {
		t.Run(name, func(t *testing.T) {
			m := loadTest(t, name)
			wrong := 0
			for _, g := range rows {
				if got := m.Encode(string(g.Text)); !slices.Equal(got, want(g)) {
					if wrong++; wrong <= 5 {
						t.Errorf("Encode(%.200q)\n got %v %q\nwant %v %q", g.Text,
							got, texts(m, got), want(g), texts(m, want(g)))
					}
				}
			}
			if wrong > 0 {
				t.Errorf("%d of %d texts differ", wrong, len(rows))
			}
		})
	}
}

func texts(m *Model, ids []int32) []string {
	var out []string
	for _, id := range ids[:min(len(ids), 40)] {
		out = append(out, m.Piece(id))
	}
	return out
}

// A long text must take about the time of its lines: 16 times the text must not take 256 times the time.
func TestEncodeIsLinear(t *testing.T) {
	m := loadTest(t, "t5")
	for name, unit := range map[string]string{
		"words": "a red bird drifts ", "spaces": " ", "one letter": "a", "unknown": "\u2603",
		"marks": "e\u0301", "invalid": "\xff", "nul": "\x00",
	} {
		testaid.Linear(t, name, "", unit, func(text string) { m.Encode(text) })
	}
}

func BenchmarkEncode(b *testing.B) {
	m := loadTest(b, "t5")
	rows := readGolden(b)
	var lines []string
	for _, g := range rows {
		if len(g.Text) > 20 && len(g.Text) < 200 {
			lines = append(lines, string(g.Text))
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		m.Encode(lines[i%len(lines)])
	}
}

func BenchmarkEncodeMegabyte(b *testing.B) {
	m := loadTest(b, "t5")
	text := strings.Repeat("a red bird drifts above the clouds, ", 1<<20/36)
	b.SetBytes(int64(len(text)))
	for range b.N {
		m.Encode(text)
	}
}
