package logs

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestVisible: characters that change how text is displayed (control codes, right-to-left overrides, zero-width spaces) are escaped, so
// that a prompt cannot disguise a log line. Joiners inside emoji and Persian words stay. JSON that goes through a VisibleWriter keeps its
// meaning, however it is divided into writes.
func TestVisible(t *testing.T) {
	for text, want := range map[string]string{
		"a\tb\n":                         "a\tb\n",
		"invoice\u202efdp.exe":           `invoice\u202efdp.exe`,
		"\u2066\u2069\u200f\u061c\u202a": `\u2066\u2069\u200f\u061c\u202a`,
		"\x1b[31mred\x07\r":              `\u001b[31mred\u0007\u000d`,
		"\u009b31m\u0085\u007f":          `\u009b31m\u0085\u007f`,
		"\x9b31m":                        `\x9b31m`,
		"ad\u200bmin\ufeff\u2060":        `ad\u200bmin\ufeff\u2060`,
		"\U000e0041":                     `\udb40\udc41`,
		"👩\u200d🚀 نمی\u200cخواهم":        "👩\u200d🚀 نمی\u200cخواهم",
		"日本語 ελληνικά עברית ✓ 15 %\u00a0…": "日本語 ελληνικά עברית ✓ 15 %\u00a0…",
	} {
		if got := Visible(text); got != want {
			t.Errorf("Visible(%q) = %q, want %q", text, got, want)
		}
		if !utf8.ValidString(text) {
			continue
		}
		line, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		for size := 1; size < 5; size++ {
			var b strings.Builder
			w := &VisibleWriter{To: &b}
			for at := 0; at < len(line); at += size {
				part := line[at:min(at+size, len(line))]
				if n, err := w.Write(part); n != len(part) || err != nil {
					t.Fatal(n, err)
				}
			}
			var again string
			if err := json.Unmarshal([]byte(b.String()), &again); err != nil || again != text {
				t.Errorf("%s in writes of %d bytes is decoded as %q, %v", line, size, again, err)
			}
			if strings.ContainsFunc(b.String(), hidden) {
				t.Errorf("%s in writes of %d bytes has hidden characters: %q", line, size, b.String())
			}
		}
	}
}
