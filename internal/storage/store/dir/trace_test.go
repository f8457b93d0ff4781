package dir

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"latentbeam/internal/storage/store"
	"latentbeam/schemas/fault"
)

// record returns the list to which d adds a line for each call. Temporary names are numbered in order of first use.
func record(d *Dir) *[]string {
	var mu sync.Mutex
	var calls []string
	temps := map[string]string{}
	short := func(name string) string {
		if isTemp(name) && temps[name] == "" {
			temps[name] = fmt.Sprintf("%s#%d", strings.TrimSuffix(name, filepath.Base(name)), len(temps)+1)
		}
		if s := temps[name]; s != "" {
			return s
		}
		return name
	}
	d.SetTrace(func(c Call) error {
		mu.Lock()
		defer mu.Unlock()
		line := string(c.Op) + " " + short(c.Name)
		if c.To != "" {
			line += " -> " + c.To
		}
		if c.Data != nil {
			line += fmt.Sprintf(" %d bytes", len(c.Data))
		}
		calls = append(calls, line)
		return nil
	})
	return &calls
}

func check(t *testing.T, what string, calls *[]string, want ...string) {
	t.Helper()
	if !slices.Equal(*calls, want) {
		t.Errorf("%s made the calls\n\t%s\nwant\n\t%s",
			what, strings.Join(*calls, "\n\t"), strings.Join(want, "\n\t"))
	}
	*calls = nil
}

// TestCalls checks every call of Put and Replace, in order: the publishing order (decision 033).
func TestCalls(t *testing.T) {
	d, ctx := openTest(t), t.Context()
	calls := record(d)
	a, b := store.Object{Name: "videos/ab/a", Data: []byte("aa")}, store.Object{Name: "videos/cd/b", Data: []byte("bbb")}
	if err := d.Put(ctx, a, b); err != nil {
		t.Fatal(err)
	}
	check(t, "the first Put", calls,
		"mkdir videos", "mkdir videos/ab", "create videos/ab/#1", "write videos/ab/#1 2 bytes",
		"mkdir videos/cd", "create videos/cd/#2", "write videos/cd/#2 3 bytes",
		"sync videos/ab/#1", "sync videos/cd/#2",
		"rename videos/ab/#1 -> videos/ab/a", "rename videos/cd/#2 -> videos/cd/b",
		"syncdir .", "syncdir videos", "syncdir videos/ab", "syncdir videos/cd")

	if err := d.Put(ctx, a, store.Object{Name: "videos/ab/c", Data: []byte("c")}); err != nil {
		t.Fatal(err)
	}
	check(t, "a Put of one old and one new file", calls,
		"create videos/ab/#3", "write videos/ab/#3 1 bytes", "sync videos/ab/#3",
		"rename videos/ab/#3 -> videos/ab/c", "syncdir videos/ab")

	err := d.Replace(ctx, "tables/t", func(w io.Writer) error {
		io.WriteString(w, "one ")
		_, err := io.WriteString(w, "two")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	check(t, "Replace", calls,
		"mkdir tables", "create tables/#4", "write tables/#4 7 bytes", "sync tables/#4",
		"replace tables/#4 -> tables/t", "syncdir .", "syncdir tables")

	// A new run does not know whether a killed one has synced the directories it finds.
	again, err := Open(d.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	calls = record(again)
	if err := again.Put(ctx, a); err != nil {
		t.Fatal(err)
	}
	check(t, "a Put of an old file in a new run", calls, "syncdir .", "syncdir videos", "syncdir videos/ab")
}

// TestEveryCallFails lets each call of a Put and a Replace fail once. The error must say what and
// where and have the right exit code, no half file may be visible, no temporary may stay, and the
// same work must succeed afterwards.
func TestEveryCallFails(t *testing.T) {
	work := func(d *Dir) error {
		err := d.Put(t.Context(), store.Object{Name: "videos/ab/a", Data: []byte("aa")},
			store.Object{Name: "videos/cd/b", Data: []byte("bbb")})
		if err != nil {
			return err
		}
		return d.Replace(t.Context(), "tables/t", func(w io.Writer) error {
			_, err := io.WriteString(w, "table")
			return err
		})
	}
	content := map[string]string{"videos/ab/a": "aa", "videos/cd/b": "bbb", "tables/t": "table"}
	total := 0
	count := openTest(t)
	count.SetTrace(func(Call) error { total++; return nil })
	if err := work(count); err != nil {
		t.Fatal(err)
	}
	if total < 20 {
		t.Fatalf("only %d calls", total)
	}
	errnos := []syscall.Errno{syscall.ENOSPC, syscall.EIO, syscall.EMFILE, syscall.EACCES, syscall.ENOTDIR}
	for _, errno := range errnos {
		for n := range total {
			d := openTest(t)
			var failed Call
			seen := 0
			d.SetTrace(func(c Call) error {
				if seen++; seen == n+1 {
					failed = c
					return errno
				}
				return nil
			})
			err := work(d)
			checkFailure(t, failed, errno, err)
			for name, want := range content {
				if exists(t, d, name) && mustRead(t, d, name) != want {
					t.Errorf("%v on %v left half of %s", errno, failed, name)
				}
			}
			if got := leftovers(t, d); got != nil {
				t.Errorf("%v on %v left %v", errno, failed, got)
			}
			if err := work(d); err != nil {
				t.Errorf("after %v on %v: %v", errno, failed, err)
			}
		}
	}
}

func checkFailure(t *testing.T, call Call, errno syscall.Errno, err error) {
	t.Helper()
	want := fault.ExitTryAgain
	isSync := call.Op == OpSync || call.Op == OpSyncDir
	if errno == syscall.ENOTDIR || isSync && errno != syscall.ENOSPC {
		want = fault.ExitFatal
	}
	if !errors.Is(err, errno) || fault.ExitCode(err) != want || fault.ClassOf(err) != fault.ClassFatal {
		t.Errorf("%v on %v: exit %d, want %d: %v", errno, call, fault.ExitCode(err), want, err)
	}
}

// TestFailedSyncIsNotRepeated: a failed fsync is not repeated on the same file. The kernel may have marked the lost pages clean,
// so the second fsync would succeed wrongly.
func TestFailedSyncIsNotRepeated(t *testing.T) {
	d := openTest(t)
	syncs := map[string]int{}
	d.SetTrace(func(c Call) error {
		if c.Op != OpSync {
			return nil
		}
		syncs[c.Name]++
		return syscall.EIO
	})
	for range 2 {
		if err := d.Put(t.Context(), store.Object{Name: "a", Data: []byte("a")}); fault.ClassOf(err) != fault.ClassFatal {
			t.Errorf("failed fsync: %v", err)
		}
	}
	for name, n := range syncs {
		if n != 1 {
			t.Errorf("%s was synced %d times", name, n)
		}
	}
	if len(syncs) != 2 || exists(t, d, "a") {
		t.Errorf("synced %v, published %v", syncs, exists(t, d, "a"))
	}
}
