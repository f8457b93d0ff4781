package read

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"latentbeam/internal/config/document"
)

// packers pack a text, by the end of a file's name.
var packers = map[string]func(io.Writer) io.WriteCloser{
	".gz": func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
	".zst": func(w io.Writer) io.WriteCloser {
		e, err := zstd.NewWriter(w)
		if err != nil {
			panic(err)
		}
		return e
	},
}

// TestPacked: a packed table has the rows of the plain one, its blanks, bad rows and byte order mark too, in one
// stream or in several; and a broken one is refused.
func TestPacked(t *testing.T) {
	for name, text := range map[string]string{
		"a.csv":   "\xef\xbb\xbfprompt,seed\r\na cat,1\r\n\"two\r\nlines\",x\r\n\r\n" + strings.Repeat("many,3\r\n", 20_000) + "last,2",
		"a.jsonl": `{"prompt": "a cat", "seed": 1}` + "\n{\n" + `{"prompt": "last"}`,
		"a.txt":   "a cat\n\nmore\nlast\n",
	} {
		want := textRows(t, textFile(t, name, text))
		for ext, pack := range packers {
			var packed bytes.Buffer
			for _, part := range []string{text[:len(text)/2], text[len(text)/2:]} {
				w := pack(&packed)
				_, err := io.WriteString(w, part)
				if err := errors.Join(err, w.Close()); err != nil {
					t.Fatal(err)
				}
			}
			path := textFile(t, name+strings.ToUpper(ext), packed.String())
			if got := textRows(t, path); !slices.Equal(got, want) || len(got) < 3 {
				t.Errorf("%s%s has %d rows, %v; want %d", name, ext, len(got), got[:min(3, len(got))], len(want))
			}
			if !IsTable(path, Options{}) {
				t.Errorf("%s is not taken for a table", path)
			}
			var problem *document.Error
			cut := textFile(t, name+ext, packed.String()[:packed.Len()-3])
			if _, err := Open([]string{cut}, Options{}); !errors.As(err, &problem) || !strings.Contains(err.Error(), "unpack") {
				t.Errorf("a broken %s%s: %v", name, ext, err)
			}
		}
	}
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "latentbeam-table-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// textRows are the rows of a table, good and bad, without the file's name.
func textRows(t *testing.T, path string) (rows []string) {
	t.Helper()
	p, err := Open([]string{path}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for rec, err := range p.All() {
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal([]any{rec.Row, fmt.Sprint(rec.Bad)})
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, strings.NewReplacer(path, "", filepath.Base(path), "").Replace(string(text)))
	}
	return rows
}
