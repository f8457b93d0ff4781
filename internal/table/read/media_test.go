package read

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMediaTables: rows of media need a path and no prompt. In other tables a path is an ordinary column.
func TestMediaTables(t *testing.T) {
	for _, c := range []struct {
		name, text string
		media      bool
		want       string // paths and prompts of the rows, or a part of the error
	}{
		{"a.csv", "path,caption\na.mp4,x\nb.png,\n", true, "a.mp4 x|b.png "},
		{"a.csv", "video\na.mp4\n", true, "a.mp4 "},
		{"a.csv", "image,path\nb.png,a.mp4\n", true, "a.mp4 "},
		{"a.csv", "path,prompt\na.mp4,x\n", false, " x"},
		{"a.csv", "path,caption\n,x\n", true, "bad: media: the value is missing; give a text"},
		{"a.csv", "caption\nx\n", true, "no column holds the media"},
		{"a.jsonl", `{"file_name": "a.mp4", "text": "x"}` + "\n" + `{"video_path": "b.mp4"}`, true, "a.mp4 x|b.mp4 "},
		{"a.jsonl", `{"text": "x"}`, true, "no column holds the media"},
	} {
		path := filepath.Join(t.TempDir(), c.name)
		if err := os.WriteFile(path, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := readMedia(path, c.media)
		if err != nil {
			got = err.Error()
		}
		if got != c.want && !strings.Contains(got, c.want) {
			t.Errorf("%q, media %v: %q, want %q", c.text, c.media, got, c.want)
		}
	}
}

func readMedia(path string, media bool) (string, error) {
	p, err := Open([]string{path}, Options{Media: media})
	if err != nil {
		return "", err
	}
	defer p.Close()
	var rows []string
	for {
		rec, err := p.Next()
		if errors.Is(err, io.EOF) {
			return strings.Join(rows, "|"), nil
		}
		if err != nil {
			return "", err
		}
		if rec.Bad != nil {
			rows = append(rows, "bad: "+strings.TrimPrefix(rec.Bad.Error(), rec.Bad.Source+": "))
			continue
		}
		rows = append(rows, rec.Row.Media+" "+rec.Row.Prompt)
	}
}
