package input

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// touch makes empty files below a folder.
func touch(t *testing.T, root string, names ...string) {
	t.Helper()
	for _, name := range names {
		at := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFolders: which inputs a folder contains, depending on its files.
func TestFolders(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		files, want, note string
	}{
		{"1.png 2.jpg 3.JPEG notes.txt", "d", "d/ is one clip of 3 frames; for 3 images write d/*"},
		{"1.png", "d", ""},
		{"notes.txt", "d", ""},
		{"a.mp4 b.mov a.txt", "d/a.mp4 d/b.mov", "d/ stands for the media in it and below: 2 videos"},
		{"a.mp4 a.json photo b.JSON", "d/a.mp4", "names are none of media: 1 without extension, 2 .json"},
		{"a.mp4 1.png", "d/1.png d/a.mp4", "1 images, 1 videos"},
		{"a.webp 1.png", "d/1.png d/a.webp", "2 images"},
		{"s/1.png s/2.png", "d/s", "d/s is one clip of frames; for single images write d/s/*"},
		{"0.png s/1.png s/2.png t/u/a.mp4 t/u/0.png", "d/0.png d/s d/t/u/0.png d/t/u/a.mp4", "1 clips of frames, 1 videos, 2 images"},
		{"1.png s/readme.md", "d", ""}, // the subfolder has no media
		{"1.png .cache/a.mp4 ._1.png", "d", ""},
		{"0.tar 1.tar x.json", "d/0.tar d/1.tar", "2 tars"},
		{"a.mp4 s/metadata.csv s/x/b.mp4", "d/a.mp4 d/s", ""},
		{"metadata.jsonl b.mp4", "d", ""},
	} {
		if err := os.RemoveAll("d"); err != nil {
			t.Fatal(err)
		}
		touch(t, "d", strings.Fields(c.files)...)
		n := &notes{}
		found, err := openFolders([]string{"d"}, n)
		if got := strings.Join(found, " "); err != nil || got != c.want {
			t.Errorf("files %s: got %s, %v; want %s", c.files, got, err, c.want)
		}
		if said := strings.Join(n.lines, "\n"); !strings.Contains(said, c.note) || c.note == "" && c.want == "d" && said != "" {
			t.Errorf("files %s: got the note %q, want %q", c.files, said, c.note)
		}
	}
}

// TestLeftOut: a pattern matches some media files. A note says how many other media files are beside them.
func TestLeftOut(t *testing.T) {
	t.Chdir(t.TempDir())
	touch(t, "v", "a.mp4", "b.MP4", "c.mov", "c.txt", "d.mov", "s/e.mp4", "s/f.mkv")
	for pattern, want := range map[string]string{
		"v/*.mp4":           "v/*.mp4 leaves out 3 media files beside those that it matches: 1 .MP4, 2 .mov",
		"v/**/*.mp4":        "4 media files beside those that it matches: 1 .MP4, 1 .mkv, 2 .mov",
		"v/*":               "",
		"v/a.mp4":           "",
		"v/*.{mp4,MP4,mov}": "",
	} {
		files, err := filepath.Glob("v/*.mp4")
		switch {
		case strings.Contains(pattern, "**"):
			files = append(files, "v/s/e.mp4")
		case strings.Contains(pattern, "{"):
			files = append(files, "v/b.MP4", "v/c.mov", "v/d.mov")
		}
		n := &notes{}
		noteLeftOut([]string{pattern}, files, n)
		if said := strings.Join(n.lines, "\n"); err != nil || !strings.Contains(said, want) || want == "" && said != "" {
			t.Errorf("pattern %s: got the note %q, want %q", pattern, said, want)
		}
		if got := slices.Compact(n.lines); len(got) > 1 {
			t.Errorf("pattern %s: got files %v", pattern, got)
		}
	}
}

// TestBareNames: files without an extension count as media if their first bytes show it.
func TestBareNames(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, content := range map[string]string{"a.mp4": "", "photo": "\xff\xd8\xff\xe0", "clip": "\x00\x00\x00\x18ftypisom", "s/clip": "YUV4MPEG2 W4 H4",
		"README": "Go to the end", "LICENSE": "", "s/notes": "GIF is a format"} {
		touch(t, "d", name)
		if err := os.WriteFile(filepath.Join("d", name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	n := &notes{}
	found, err := openFolders([]string{"d"}, n)
	if got := strings.Join(found, " "); err != nil || got != "d/a.mp4 d/clip d/photo d/s/clip" {
		t.Errorf("got files %s, %v", got, err)
	}
	if said := strings.Join(n.lines, "\n"); !strings.Contains(said, "1 videos, 3 media files without an extension") {
		t.Errorf("got the note %q", said)
	}
}
