package source

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"latentbeam/internal/storage/store/bucket/buckettest"
)

// touch makes empty files below a folder, and the folders that they lie in.
func touch(t *testing.T, root string, names ...string) {
	t.Helper()
	for _, name := range names {
		at := filepath.Join(root, name)
		must(t, os.MkdirAll(filepath.Dir(at), 0o755))
		must(t, os.WriteFile(at, nil, 0o644))
	}
}

// globs are patterns and what they match in any place: as globstar of bash and Python's glob(recursive=True) do.
var globs = map[string]string{
	"v/**/*.mp4":     "v/a.mp4 v/s1/b.mp4 v/s1/s2/c.mp4 v/s1/s2/s3/d.mp4",
	"v/*.mp4":        "v/a.mp4",
	"v/*/*.mp4":      "v/s1/b.mp4",
	"**/s2/*":        "v/s1/s2/c.mp4",
	"v/**/s3/*":      "v/s1/s2/s3/d.mp4",
	"v/{a,s1/b}.mp4": "v/a.mp4 v/s1/b.mp4",
	"v/s1/**/[cd].*": "v/s1/s2/c.mp4 v/s1/s2/s3/d.mp4",
}

var globbed = []string{"v/a.mp4", "v/s1/b.mp4", "v/s1/s2/c.mp4", "v/s1/s2/s3/d.mp4", "w/x.txt"}

func TestGlob(t *testing.T) {
	root := t.TempDir()
	t.Chdir(root)
	touch(t, root, append(slices.Clone(globbed), "v/.cache/x/e.mp4", "v/**x/f.mp4")...)
	must(t, os.RemoveAll("v/**x")) // a name that no pattern of the list wants
	for pattern, want := range globs {
		found, err := Expand(t.Context(), []string{pattern}, 100)
		must(t, err)
		if pattern == "**/s2/*" { // folders may be clips of frames
			found = slices.DeleteFunc(found, func(at string) bool { return at == "v/s1/s2/s3" })
		}
		if got := strings.Join(found, " "); got != want {
			t.Errorf("%s: %s, want %s", pattern, got, want)
		}
	}
	if _, err := Expand(t.Context(), []string{"v/**/*.mp4"}, 3); err == nil || !strings.Contains(err.Error(), "more than 3") {
		t.Errorf("a limit: %v", err)
	}
	if _, err := Expand(t.Context(), []string{"v/{a*"}, 3); err == nil || !strings.Contains(err.Error(), "not a glob pattern") {
		t.Errorf("an open brace: %v", err)
	}
	touch(t, root, "odd{1.mp4")
	if found, err := Expand(t.Context(), []string{"odd{1.mp4"}, 3); err != nil || len(found) != 1 {
		t.Errorf("a name with a brace: %v, %v", found, err)
	}
}

func TestGlobInBuckets(t *testing.T) {
	inBuckets(t, func(t *testing.T, root string, _ *buckettest.Server) {
		objects := map[string]string{}
		for _, name := range globbed {
			objects[name] = "x"
		}
		put(t, root, objects)
		for pattern, want := range globs {
			found, err := Expand(t.Context(), []string{root + "/" + pattern}, 100)
			must(t, err)
			if got := strings.ReplaceAll(strings.Join(found, " "), root+"/", ""); got != want {
				t.Errorf("%s: %s, want %s", pattern, got, want)
			}
		}
	})
	for pattern, want := range map[string]string{"https://h/{a,b}.csv": "https://h/a.csv https://h/b.csv",
		"https://h/{x,y}{1..2}": "https://h/x1 https://h/x2 https://h/y1 https://h/y2"} {
		if got := strings.Join(ranges([]string{pattern}, 10), " "); got != want {
			t.Errorf("%s: %s, want %s", pattern, got, want)
		}
	}
}

// TestGlobOfLoops: links that lead back into their own folder, several of which would make endless many paths, end.
func TestGlobOfLoops(t *testing.T) {
	root := t.TempDir()
	touch(t, root, "v/a.mp4", "other/b.mp4")
	for _, name := range []string{"v/one", "v/two", "v/three"} {
		must(t, os.Symlink(filepath.Join(root, "v"), filepath.Join(root, name)))
	}
	must(t, os.Symlink(filepath.Join(root, "other"), filepath.Join(root, "v/other")))
	began := time.Now()
	found, err := Expand(t.Context(), []string{root + "/v/**/*.mp4"}, 100)
	if want := []string{root + "/v/a.mp4", root + "/v/other/b.mp4"}; err != nil || !slices.Equal(found, want) {
		t.Errorf("%v after %v, %v", found, time.Since(began), err)
	}
}

// TestUnicodeForms: a file whose name differs only in the Unicode form is named in the error.
func TestUnicodeForms(t *testing.T) {
	root := t.TempDir()
	const nfc, nfd = "caf\u00e9", "cafe\u0301"
	touch(t, root, nfd+"/"+nfc+".csv", "plain.csv")
	for _, at := range []string{root + "/" + nfc + "/" + nfc + ".csv", root + "/" + nfc + "/*.csv"} {
		_, err := Expand(t.Context(), []string{at}, 10)
		if err == nil || !strings.Contains(err.Error(), `cafe\u0301/caf\u00e9.csv" is there`) || !strings.Contains(err.Error(), "Unicode form") {
			t.Errorf("%+q: %v", at, err)
		}
	}
	contents := &Contents{}
	if _, err := contents.Digest(t.Context(), root+"/"+nfc+"/"+nfc+".csv"); err == nil || !strings.Contains(err.Error(), `cafe\u0301/`) {
		t.Errorf("media: %v", err)
	}
	for _, at := range []string{root + "/plain.csv", root + "/none.csv", root + "/" + nfd + "/none" + nfc} {
		if other := OtherForm(at); other != "" {
			t.Errorf("%+q: %+q", at, other)
		}
	}
}

// TestHiddenFiles: a pattern finds hidden files only if it names them.
func TestHiddenFiles(t *testing.T) {
	root := t.TempDir()
	touch(t, root, "v/a.mp4", "v/._a.mp4", "v/.DS_Store", "v/Thumbs.db", "w/._a.mp4")
	for pattern, want := range map[string]string{"v/*": "v/a.mp4", "v/*.mp4": "v/a.mp4", "v/._*": "v/._a.mp4", "v/.DS_Store": "v/.DS_Store"} {
		found, err := Expand(t.Context(), []string{filepath.Join(root, pattern)}, 100)
		if got := strings.ReplaceAll(strings.Join(found, " "), root+"/", ""); got != want || err != nil {
			t.Errorf("%s: %s, %v; want %s", pattern, got, err, want)
		}
	}
	if found, err := Expand(t.Context(), []string{root + "/w/*"}, 100); err == nil || !strings.Contains(err.Error(), "only hidden files") {
		t.Errorf("%v, %v", found, err)
	}
}
