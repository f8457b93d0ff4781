package exec

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// limitLogs limits the logs of this test to 1,000 bytes for the head and 500 bytes for each part of the tail.
func limitLogs(t *testing.T) {
	head, part := maxLogHead, maxLogPart
	maxLogHead, maxLogPart = 1000, 500
	t.Cleanup(func() { maxLogHead, maxLogPart = head, part })
}

// TestLogKeepsHeadAndTail: of 1 to 10,000 lines of 10 bytes the file keeps the first 100 (the head) and the last 50 to 100 (the tail).
// Lines are whole and in order, and a line between head and tail says how many bytes are left out.
func TestLogKeepsHeadAndTail(t *testing.T) {
	limitLogs(t)
	for _, lines := range []int{1, 99, 100, 101, 149, 150, 151, 199, 200, 201, 250, 251, 10_000} {
		name := filepath.Join(t.TempDir(), "exec.log")
		if err := os.WriteFile(name, []byte("an earlier run\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := openLogFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for i := range lines {
			l.print("%09d", i) // 10 bytes with its end
			if files, _ := filepath.Glob(name + "*"); len(files) > 3 {
				t.Fatalf("%d files", len(files))
			}
		}
		if err := l.close(); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text, found := strings.CutPrefix(string(data), "an earlier run\n")
		if files, _ := filepath.Glob(name + "*"); !found || len(files) != 1 {
			t.Fatalf("%q, %v", text, files)
		}
		kept := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		left := 0
		if lines > 100 && strings.HasPrefix(kept[100], "[...") {
			if _, err := fmt.Sscanf(kept[100], "[... %d bytes", &left); err != nil {
				t.Fatal(err)
			}
			kept = append(kept[:100:100], kept[101:]...)
		}
		if left != 10*(lines-len(kept)) || len(kept) > 200 || len(kept) < min(lines, 150) {
			t.Errorf("%d lines: got %d kept lines and %d bytes left out, want 150 to 200 lines and the bytes of all others", lines, len(kept), left)
		}
		for i, line := range kept {
			want := i
			if i >= 100 {
				want = lines - len(kept) + i
			}
			if line != fmt.Sprintf("%09d", want) {
				t.Fatalf("%d lines: line %d is %s", lines, i, line)
			}
		}
	}
}

// TestLogOfAKilledProcess: the tail is in files beside the log, so that it also remains if the process is killed.
func TestLogOfAKilledProcess(t *testing.T) {
	limitLogs(t)
	name := filepath.Join(t.TempDir(), "exec.log")
	l, err := openLogFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 100 {
				l.print("%s", strings.Repeat("x", 9))
			}
		})
	}
	all.Wait()
	l.print("it panics")
	var kept string
	files, _ := filepath.Glob(name + "*")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		kept += string(data)
	}
	if !strings.Contains(kept, "it panics") || len(kept) > 2000 {
		t.Errorf("%d bytes in %v", len(kept), files)
	}
}
