package input

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestCaptions: captions may have the encodings that editors write. An invalid caption fails only its row.
func TestCaptions(t *testing.T) {
	dir := t.TempDir()
	s := mediaRows{texts: &sync.Map{}}
	for text, want := range map[string]string{
		" a red ball \n":         "a red ball",
		"\xef\xbb\xbfa red ball": "a red ball",
		"a red\rball\r":          "a red\nball",
		"\xff\xfea\x00":          "! it is UTF-16",
		"a red\x00ball":          "! it holds a NUL character",
	} {
		if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		e, err := s.mediaFile(filepath.Join(dir, "a.mp4"))
		if err != nil {
			t.Fatal(err)
		}
		got := e.Row.Prompt
		if e.Failed != nil {
			got = "! " + strings.TrimPrefix(e.Failed.Message, filepath.Join(dir, "a.txt: "))
		}
		if got != want && !strings.HasPrefix(want, "! ") || !strings.HasPrefix(got, want) {
			t.Errorf("caption file %q: got %q, want %q", text, got, want)
		}
	}
}
