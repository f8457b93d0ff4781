package source

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestMembers: a member of a tar has the digest of a file with the same content. Its local copy is removed by release.
func TestMembers(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	for name, text := range map[string]string{"a.tar": "0123YUV4MPEG2 x", "b.y4m": "YUV4MPEG2 x"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m := Member{File: dir + "/a.tar", Offset: 4, Size: 11, Name: "d/b.y4m"}
	if parsed, ok := ParseMember(m.String()); !ok || parsed != m || Shown(m.String()) != dir+"/a.tar/d/b.y4m" {
		t.Errorf("%s is %+v", m, parsed)
	}
	cell := Member{File: "a#1.parquet", Row: 7, Column: "a b/c", Name: "/x/y.mp4"}
	if parsed, ok := ParseMember(cell.String()); !ok || parsed != cell {
		t.Errorf("%s is %+v", cell, parsed)
	}
	got, err := MediaDigest(t.Context(), m.String())
	want, _ := MediaDigest(t.Context(), dir+"/b.y4m")
	if err != nil || got != want {
		t.Errorf("digest %s, %v, want %s", got, err, want)
	}
	l, err := Media(t.Context(), m.String())
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(l.Path); err != nil || string(text) != "YUV4MPEG2 x" || filepath.Ext(l.Path) != ".y4m" {
		t.Errorf("%s holds %q, %v", l.Path, text, err)
	}
	l.Release()
	if _, err := os.Stat(l.Path); !os.IsNotExist(err) {
		t.Errorf("the copy still exists after its release: %v", err)
	}
	m.Size++
	if _, err := Media(t.Context(), m.String()); err == nil ||
		!strings.Contains(err.Error(), "a.tar/d/b.y4m: bytes 4 to 16 are not in the file") {
		t.Errorf("a member beyond the end: %v", err)
	}
}

func TestRanges(t *testing.T) {
	for pattern, want := range map[string][]string{
		"a{08..11}.tar": {"a08.tar", "a09.tar", "a10.tar", "a11.tar"}, "a{9..10}": {"a9", "a10"}, "a{2..1}": {"a{2..1}"},
		"{0..1}x{0..1}": {"0x0", "0x1", "1x0", "1x1"}, "a{1,2}": {"a{1,2}"},
	} {
		if got := ranges([]string{pattern}, 100); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", pattern, got, want)
		}
	}
	if got := ranges([]string{"{0..999999999}"}, 100); len(got) != 1 {
		t.Errorf("%d patterns of a range that is too long", len(got))
	}
}
