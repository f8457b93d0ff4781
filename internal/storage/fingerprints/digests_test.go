package fingerprints

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"latentbeam/internal/system/testaid"
)

// TestMark: the ID of a file changes when its content, path, inode, time or size changes. An unreliable mark has no ID.
func TestMark(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("marks of files are reliable on Linux only")
	}
	dir := t.TempDir()
	path, twin := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// later marks a file as if a minute had passed.
	later := func(path string) Mark { return markAt(path, time.Now().Add(time.Minute)) }
	write(path, "one")
	if id := MarksID("way", MarkFile(path)); id != "" {
		t.Errorf("a file that was written just now has the ID %s", id)
	}
	first := later(path)
	id := MarksID("way", first)
	if len(id) != 32 || MarksID("way", later(path)) != id {
		t.Fatalf("a file has the ID %q, then %q", id, MarksID("way", later(path)))
	}
	if MarksID("other", first) == id || MarksID("way", first, first) == id {
		t.Error("the ID does not depend on the way, or on the number of files")
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	write(twin, "one")
	if MarksID("way", later(twin)) == id {
		t.Error("another file has the same ID")
	}
	for change, do := range map[string]func() error{
		"another content of the same size at the same time": func() error {
			write(path, "two")
			return os.Chtimes(path, info.ModTime(), info.ModTime())
		},
		"another file of the same time and size": func() error {
			write(twin, "two")
			if err := os.Chtimes(twin, info.ModTime(), info.ModTime()); err != nil {
				return err
			}
			return os.Rename(twin, path)
		},
		"another time": func() error { return os.Chtimes(path, time.Unix(1, 0), time.Unix(1, 0)) },
		"another size": func() error { write(path, "three"); return nil },
	} {
		before := later(path)
		was := MarksID("way", before)
		if was == "" {
			t.Fatalf("%s: no ID before", change)
		}
		time.Sleep(20 * time.Millisecond) // file times advance in steps of a few milliseconds
		if err := do(); err != nil {
			t.Fatal(err)
		}
		if now := MarksID("way", later(path)); now == was || now == "" {
			t.Errorf("%s: the ID was %s and is %q", change, was, now)
		}
		if now := MarksID("way", before); now != "" {
			t.Errorf("%s: the mark from before still has the ID %s", change, now)
		}
	}
	if MarksID("way", later(filepath.Join(dir, "none"))) != "" || MarksID("way", later(dir)) != "" || MarksID("way", Mark{}) != "" {
		t.Error("a missing file, a directory or an empty mark has an ID")
	}
}

// TestStore: one process recalls the digests that another one stored. Incomplete lines are ignored.
func TestStore(t *testing.T) {
	t.Setenv(CacheVariable, t.TempDir())
	id, sha := strings.Repeat("ab", 16), strings.Repeat("cd", 32)
	var first, second, third Store
	first.Remember("", sha)
	first.Remember(id, sha)
	if got := second.Recall(id); got != sha || first.Recall("") != "" {
		t.Errorf("the digest is %q, the digest of an empty ID is %q", got, first.Recall(""))
	}
	path, err := file(id)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 40); err != nil {
		t.Fatal(err)
	}
	if got := third.Recall(id); got != "" {
		t.Errorf("a line that was cut off says %q", got)
	}
	id, noted := strings.Repeat("ef", 16), sha+" jpeg turn=6"
	if path, err = file(id); err != nil {
		t.Fatal(err)
	}
	second.Remember(id, noted)
	var fourth, fifth Store
	if got := fourth.Recall(id); got != noted {
		t.Errorf("a digest with a note is %q", got)
	}
	info, err := os.Stat(path)
	if err == nil {
		err = os.Truncate(path, info.Size()-int64(len(" turn=6.\n")))
	}
	if got := fifth.Recall(id); err != nil || got != "" {
		t.Errorf("a note that was cut off says %q, %v", got, err)
	}
}

// TestCacheCannotBeWritten: the cache would be below a file. The digests work, and one warning names the folder's variable.
func TestCacheCannotBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(CacheVariable, filepath.Join(file, "cache"))
	cacheWarning = sync.Once{}
	log := testaid.Log(t)
	id, other := strings.Repeat("a", 32), strings.Repeat("b", 32)
	var s Store
	s.Remember(id, "1")
	s.Remember(other, "2")
	if got := s.Recall(id); got != "1" {
		t.Errorf("the digest is %q, want 1", got)
	}
	if n := strings.Count(log.String(), CacheVariable); n != 1 {
		t.Errorf("%d warnings, want one that names %s:\n%s", n, CacheVariable, log)
	}
}
