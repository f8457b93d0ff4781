package media

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// shim puts a program called ffmpeg on PATH that reports another version. Otherwise it runs the real ffmpeg.
func shim(t *testing.T, version string) {
	t.Helper()
	dir := t.TempDir()
	text := fmt.Sprintf("#!/bin/sh\necho ffmpeg version %s Copyright 2000-2026\necho 'libavcodec  59. 37.100 / 59. 37.100'\n",
		version)
	if err := os.WriteFile(filepath.Join(dir, "ffmpeg"), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
}

// TestDigestNamesTheDecoder: the digest of a file that ffmpeg decodes depends on the version of ffmpeg. The digests of folders and of files
// that this package reads do not.
func TestDigestNamesTheDecoder(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "frames"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"a.webm": "content", "a.y4m": "YUV4MPEG2 W4 H4", "a.PNG": "\x89PNG\r\n\x1a\n",
		"frames/0.jpg": "\xff\xd8\xff\xe0"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	digests := func() (out [4]string) {
		for i, name := range []string{"a.webm", "a.y4m", "a.PNG", "frames"} {
			d, err := Digest(t.Context(), filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			out[i] = d
		}
		return out
	}
	shim(t, "5.1.9")
	old := digests()
	shim(t, "7.0")
	now := digests()
	t.Setenv("PATH", dir)
	none := digests()
	for i, d := range old {
		if (d == now[i]) != (i > 0) || (d == none[i]) != (i > 0) {
			t.Errorf("%d: %q, then %q, without ffmpeg %q", i, d, now[i], none[i])
		}
	}
	if want := " ffmpeg 5.1.9, libavcodec 59.37.100"; !strings.HasSuffix(old[0], want) {
		t.Errorf("digest %q, want %q behind the content's", old[0], want)
	}
}

// TestEncoderNamesItsProgram: the version of an external encoder is known, because it is part of the key.
func TestEncoderNamesItsProgram(t *testing.T) {
	embedded, err := New("h264", "embedded", Options{})
	if err != nil || embedded.Version() != "" {
		t.Errorf("embedded: %q, %v", embedded.Version(), err)
	}
	needTools(t)
	e, err := New("h264", "ffmpeg", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if v := e.Version(); !strings.HasPrefix(v, "ffmpeg ") || !strings.Contains(v, "libavcodec ") {
		t.Errorf("ffmpeg: %q", v)
	}
}
