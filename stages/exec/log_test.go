package exec

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// smallLogs bounds logs of this test to a head of 1,000 and parts of 500 bytes.
func smallLogs(t *testing.T) {
	head, part := maxLogHead, maxLogPart
	maxLogHead, maxLogPart = 1000, 500
	t.Cleanup(func() { maxLogHead, maxLogPart = head, part })
}

// TestLogKeepsHeadAndTail: whatever is printed, the size of the file is limited, its lines are whole and in order, and the
// number of bytes that are left out is stated.
func TestLogKeepsHeadAndTail(t *testing.T) {
	smallLogs(t)
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
			t.Errorf("%d lines: %d are kept, %d bytes left out", lines, len(kept), left)
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
	smallLogs(t)
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
