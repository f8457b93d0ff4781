package dir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"latentbeam/internal/storage/store"
	"latentbeam/schemas/fault"
)

func openTest(t testing.TB) *Dir {
	t.Helper()
	d, err := Open(filepath.Join(t.TempDir(), "a", "out"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func mustRead(t testing.TB, d *Dir, name string) string {
	t.Helper()
	b, err := store.ReadFile(t.Context(), d, name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// isTemp reports whether the last element of name is a temporary file's.
func isTemp(name string) bool { return strings.HasPrefix(path.Base(name), store.TempPrefix) }

func exists(t testing.TB, d *Dir, name string) bool {
	t.Helper()
	found, err := store.Exists(context.WithoutCancel(t.Context()), d, name)
	if err != nil {
		t.Error(err)
	}
	return found
}

// leftovers lists temporary files anywhere under the directory.
func leftovers(t testing.TB, d *Dir) (names []string) {
	t.Helper()
	err := filepath.WalkDir(d.Path(), func(path string, _ fs.DirEntry, err error) error {
		if isTemp(path) {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestPutOnce(t *testing.T) {
	d, ctx := openTest(t), t.Context()
	one := store.Object{Name: "videos/ab/one.mp4", Data: []byte("one")}
	two := store.Object{Name: "videos/cd/two.mp4", Data: bytes.Repeat([]byte("two"), 300_000)}
	empty := store.Object{Name: "videos/ab/empty", Data: nil}
	for range 2 {
		if err := d.Put(ctx, one, two, empty, one); err != nil {
			t.Fatal(err)
		}
	}
	if mustRead(t, d, one.Name) != "one" || mustRead(t, d, two.Name) != string(two.Data) {
		t.Error("wrong content")
	}

	other := store.Object{Name: one.Name, Data: []byte("uno!")}
	third := store.Object{Name: "third", Data: []byte("3")}
	err := d.Put(ctx, other, third)
	var conflict *store.ConflictError
	if !errors.Is(err, store.ErrConflict) || !errors.As(err, &conflict) {
		t.Fatalf("other bytes: %v", err)
	}
	if conflict.Name != one.Name || conflict.HaveSize != 3 || conflict.WantSize != 4 ||
		!strings.HasPrefix(conflict.HaveSHA, "7692c3ad3540bb80") {
		t.Errorf("conflict says %+v", conflict)
	}
	for _, part := range []string{one.Name, "3 bytes", "4 bytes", conflict.HaveSHA, conflict.WantSHA} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("message lacks %q: %v", part, err)
		}
	}
	if mustRead(t, d, one.Name) != "one" || mustRead(t, d, "third") != "3" {
		t.Error("a conflict changed the old file or stopped the rest of the batch")
	}
	last := bytes.Clone(two.Data)
	last[len(last)-1]++
	if err := d.Put(ctx, store.Object{Name: two.Name, Data: last}); !errors.Is(err, store.ErrConflict) {
		t.Errorf("same size, last byte differs: %v", err)
	}
	if got := leftovers(t, d); got != nil {
		t.Errorf("left behind %v", got)
	}
}

func TestPutManyWriters(t *testing.T) {
	d := openTest(t)
	var wg sync.WaitGroup
	errs := make([]error, 16)
	for i := range errs {
		wg.Go(func() {
			data := []byte("same")
			if i%4 == 3 {
				data = []byte("else")
			}
			errs[i] = d.Put(t.Context(), store.Object{Name: "dir/race", Data: data},
				store.Object{Name: fmt.Sprintf("dir/%d", i), Data: data})
		})
	}
	wg.Wait()
	winner := mustRead(t, d, "dir/race")
	for i, err := range errs {
		lost := (winner == "else") != (i%4 == 3)
		if errors.Is(err, store.ErrConflict) != lost || (err != nil) != lost {
			t.Errorf("writer %d, winner %q: %v", i, winner, err)
		}
		store.ReadFile(t.Context(), d, fmt.Sprintf("dir/%d", i))
	}
	if got := leftovers(t, d); got != nil {
		t.Errorf("left behind %v", got)
	}
}

func TestLinkFallback(t *testing.T) {
	d := openTest(t)
	if err := d.Put(t.Context(), store.Object{Name: "from", Data: []byte("new")},
		store.Object{Name: "taken", Data: []byte("old")}); err != nil {
		t.Fatal(err)
	}
	if err := d.linkNew("from", "taken"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("taken name: %v", err)
	}
	if err := d.linkNew("from", "to"); err != nil || mustRead(t, d, "to") != "new" || exists(t, d, "from") {
		t.Errorf("free name: %v", err)
	}
}

func TestReplace(t *testing.T) {
	d, ctx := openTest(t), t.Context()
	write := func(text string, err error) func(io.Writer) error {
		return func(w io.Writer) error {
			io.WriteString(w, text)
			return err
		}
	}
	boom := errors.New("boom")
	long := strings.Repeat("new", 200_000)
	if err := d.Replace(ctx, "tables/videos.parquet", write("old", nil)); err != nil {
		t.Fatal(err)
	}
	if err := d.Replace(ctx, "tables/videos.parquet", write("half", boom)); !errors.Is(err, boom) {
		t.Errorf("writer's error: %v", err)
	}
	if got := mustRead(t, d, "tables/videos.parquet"); got != "old" {
		t.Errorf("after a failed replace: %q", got)
	}
	if err := d.Replace(ctx, "tables/videos.parquet", write(long, nil)); err != nil {
		t.Fatal(err)
	}
	if got := mustRead(t, d, "tables/videos.parquet"); got != long {
		t.Errorf("after replace: %d bytes", len(got))
	}
	if got := leftovers(t, d); got != nil {
		t.Errorf("left behind %v", got)
	}
}

func TestReading(t *testing.T) {
	d, ctx := openTest(t), t.Context()
	names := []string{
		"tables/a.parquet", "tables/b.parquet", "tablet", "videos/ab/x", "videos/ab/y/z", "videos/c",
	}
	for _, name := range names {
		if err := d.Put(ctx, store.Object{Name: name, Data: []byte(name)}); err != nil {
			t.Fatal(err)
		}
	}
	stale, err := d.createTemp("videos/stale")
	if err != nil {
		t.Fatal(err)
	}
	defer stale.discard()
	for prefix, want := range map[string][]string{
		"": names, "table": names[:3], "tables/": names[:2], "tables/b": names[1:2],
		"videos/ab": names[3:5], "videos/ab/y": names[4:5], "videos/ab/y/": names[4:5],
		"none/": nil, "x": nil,
	} {
		if got, err := store.Names(ctx, d, prefix, store.Deep); err != nil || !slices.Equal(got, want) {
			t.Errorf("List(%q) = %v, %v, want %v", prefix, got, err, want)
		}
	}
	f, err := d.Open(t.Context(), "videos/ab/x")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	part := make([]byte, 2)
	if _, err := f.ReadAt(part, 7); err != nil || string(part) != "ab" || f.Size() != 11 {
		t.Errorf("ReadAt gave %q, %v, size %d", part, err, f.Size())
	}
	if _, err := d.Open(t.Context(), "videos"); err == nil {
		t.Error("a directory was opened as a file")
	}
	if err := d.Remove(t.Context(), "tablet"); err != nil || exists(t, d, "tablet") {
		t.Errorf("remove: %v", err)
	}
	for _, err := range []error{d.Remove(t.Context(), "tablet"), second(store.ReadFile(t.Context(), d, "tablet")),
		second(d.Open(t.Context(), "tablet"))} {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("missing file: %v", err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestHostileNames(t *testing.T) {
	base := t.TempDir()
	outside := filepath.Join(base, "outside")
	os.Mkdir(outside, 0o755)
	d, err := Open(filepath.Join(base, "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	// Links that someone put into the output: out of it, and to a file out of it.
	os.Symlink(outside, filepath.Join(d.Path(), "link"))
	os.Symlink("../outside", filepath.Join(d.Path(), "up"))
	os.Symlink(filepath.Join(outside, "file"), filepath.Join(d.Path(), "leaf"))
	hostile := []string{
		"", ".", "..", "../x", "a/../../x", "/etc/x", "a//b", "a/", "./a", "a\x00b", "a\nb", "a\x7f", "\xff",
		`a\b`, `C:\x`, "c:x", ".tmp-x", "a/.tmp-x", ".tmp-x/a", strings.Repeat("a", 251),
		strings.Repeat("a/", 600) + "a", strings.Repeat("../", 40) + "etc/x",
		"link/x", "link/y/x", "up/x", "leaf/x",
	}
	ctx := t.Context()
	for _, name := range hostile {
		errs := []error{
			d.Put(ctx, store.Object{Name: name, Data: []byte("x")}),
			d.Replace(ctx, name, func(io.Writer) error { return nil }),
			second(store.ReadFile(ctx, d, name)), second(d.Open(t.Context(), name)), second(d.Stat(t.Context(), name)),
			d.Remove(t.Context(), name),
			second(d.Lock(t.Context(), name, "test")),
		}
		for i, err := range errs {
			if err == nil {
				t.Errorf("call %d accepted %q", i, name)
			}
		}
	}
	for _, name := range []string{"leaf"} {
		if err := d.Put(ctx, store.Object{Name: name, Data: []byte("x")}); err == nil {
			t.Errorf("published through link %q", name)
		}
		if _, err := d.Lock(t.Context(), name, "test"); err == nil {
			t.Errorf("locked through link %q", name)
		}
	}
	if entries, _ := os.ReadDir(outside); len(entries) != 0 {
		t.Errorf("outside the output: %v", entries)
	}
	if entries, _ := os.ReadDir(base); len(entries) != 2 {
		t.Errorf("beside the output: %v", entries)
	}
}

func TestCancelledPutPublishesNothing(t *testing.T) {
	d := openTest(t)
	ctx, cancel := context.WithCancel(t.Context())
	fault.SetHook(func(name string) {
		if name == fault.StorePutTempSynced {
			cancel()
		}
	})
	defer fault.SetHook(nil)
	err := d.Put(ctx, store.Object{Name: "a", Data: []byte("a")})
	if !errors.Is(err, context.Canceled) || fault.ExitCode(err) != fault.ExitInterrupted {
		t.Errorf("cancelled: %v", err)
	}
	if exists(t, d, "a") || leftovers(t, d) != nil {
		t.Error("a cancelled Put left something")
	}
}

func TestOpenLongName(t *testing.T) {
	_, err := Open(filepath.Join(t.TempDir(), strings.Repeat("x", 300)))
	if fault.ExitCode(err) != fault.ExitUsage || !strings.Contains(err.Error(), "shorten the names") {
		t.Errorf("a name of 300 bytes: %v", err)
	}
}

func TestOpenDirOnAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	os.WriteFile(path, nil, 0o644)
	if _, err := Open(path); fault.ExitCode(err) != fault.ExitUsage {
		t.Errorf("a file as output: %v", err)
	}
}
