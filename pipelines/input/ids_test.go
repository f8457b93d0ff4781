package input

import (
	"fmt"
	"strings"
	"testing"
)

// TestFileIDs: files with the same name get different ids. The id of any other file is its name without the extension.
func TestFileIDs(t *testing.T) {
	for _, c := range []struct{ files, want string }{
		{"v/a.mp4 v/b.mp4", ""},
		{"v/s1/a.mp4 v/s2/a.mp4 v/s2/b.mp4", "v/s1/a.mp4=s1/a v/s2/a.mp4=s2/a"},
		{"v/a.mp4 v/s/a.mp4", "v/a.mp4=a v/s/a.mp4=s/a"},
		{"a.mp4 s/a.mp4", "a.mp4=a s/a.mp4=s/a"},
		{"x/a.mp4 y/a.mp4", "x/a.mp4=x/a y/a.mp4=y/a"},
		{"/d/x/a.mp4 /d/y/a.mp4", "/d/x/a.mp4=x/a /d/y/a.mp4=y/a"},
		{"v/a.mp4 v/a.png v/s/a.mp4", "v/a.mp4=a.mp4 v/a.png=a.png v/s/a.mp4=s/a"},
		{"gs://b/v/s1/a.mp4 gs://b/v/s2/a.mp4", "gs://b/v/s1/a.mp4=s1/a gs://b/v/s2/a.mp4=s2/a"},
		{"gs://b/a.mp4 s3://b/a.mp4", "gs://b/a.mp4=gs://b/a s3://b/a.mp4=s3://b/a"},
		{"v/s1/c v/s2/c", "v/s1/c=s1/c v/s2/c=s2/c"},
		{"v/s1/a.mp4 v/s10/a.mp4", "v/s1/a.mp4=s1/a v/s10/a.mp4=s10/a"},
	} {
		files := strings.Fields(c.files)
		ids := fileIDs(files)
		var got []string
		for _, file := range files {
			if id, found := ids[file]; found {
				got = append(got, fmt.Sprintf("%s=%s", file, id))
			}
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("files %s: got ids %s, want %s", c.files, text, c.want)
		}
	}
}
