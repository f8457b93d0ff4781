package ftfy

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"latentbeam/internal/system/testaid"
)

// TestFixTwice: a repaired text can contain something that is repaired when it is fixed again, in ftfy 6.3.1 and here.
func TestFixTwice(t *testing.T) {
	once := Fix("\u00ec\r\ufffd\u00ce\ufffd")
	if twice := Fix(once); once != "\u00ec\n\ufffd\u00ce\ufffd" || twice != "\u00ec\n\ufffd\ufffd" {
		t.Errorf("%+q, again %+q", once, twice)
	}
}

// golden is a text, ftfy 6.3.1's repair of it and Python 3.11's html.unescape of it
// (testdata/make_goldens.py).
type golden struct{ text, fixed, unescaped string }

func readGolden(t *testing.T) []golden {
	t.Helper()
	f, err := os.Open("testdata/golden.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var rows []golden
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var row [3]string
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, golden{row[0], row[1], row[2]})
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if len(rows) < 4000 {
		t.Fatalf("only %d golden texts", len(rows))
	}
	return rows
}

func TestFixEqualsLibrary(t *testing.T) {
	rows := readGolden(t)
	wrong := 0
	for _, g := range rows {
		if got := Fix(g.text); got != g.fixed {
			if wrong++; wrong <= 20 {
				t.Errorf("Fix(%+q)\n got %+q\nwant %+q", g.text, got, g.fixed)
			}
		}
	}
	if wrong > 0 {
		t.Errorf("%d of %d texts differ", wrong, len(rows))
	}
}

func TestUnescapeHTMLEqualsPython(t *testing.T) {
	rows := readGolden(t)
	wrong := 0
	for _, g := range rows {
		if got := UnescapeHTML(g.text); got != g.unescaped {
			if wrong++; wrong <= 20 {
				t.Errorf("UnescapeHTML(%+q)\n got %+q\nwant %+q", g.text, got, g.unescaped)
			}
		}
	}
}

// What makes the library slow must not make us slow: 16 times the text, not 256 times the time.
func TestFixIsLinear(t *testing.T) {
	for name, unit := range map[string]string{
		"words": "a red bird drifts ", "mojibake": "donâ€™t ", "embedded": "ok ’ Ã© ", "capitals": "Ã",
		"amp": "amp;", "ampersands": "&", "entity": "&eacute;", "entity start": "&#", "marks": "\u0301",
		"marks of two classes": "\u0323\u0301", "escapes": "\x1b[", "escape digits": "1", "lines": "é\r\n",
		"spaces": " ", "question": "Ã?", "low": "à",
	} {
		prefix := map[string]string{"amp": "&", "escape digits": "\x1b[", "question": "’"}[name]
		testaid.Linear(t, name, prefix, unit, func(text string) { Fix(text) })
	}
}

func FuzzFix(f *testing.F) {
	seeds := []string{"donâ€™t", "&amp;amp;", "\xff\xc3", "x\u0301\u0323", "Ã la", "\x1b[1m", "Î•Î»\x1a"}
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if got := Fix(s); !utf8.ValidString(got) || strings.ContainsAny(got, "\r\x1b") {
			t.Errorf("Fix(%+q) = %+q", s, got)
		}
	})
}
