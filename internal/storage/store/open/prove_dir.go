package open

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/dir"
	"latentbeam/schemas/objects"
)

// writersAtOnce is how many stores put one name at the same time.
const writersAtOnce = 4

// trial is one check of a directory, in its own folder, which is removed afterwards.
type trial struct {
	ctx      context.Context
	folder   string
	stores   []*dir.Dir
	promises []store.Promise
	begun    time.Time
}

// ProveDir checks whether a directory, or the nearest existing one above it, keeps the promises that jobs rely on. The complete
// form also requests a lock from another process, and tries unusual names.
func ProveDir(ctx context.Context, path string, whole bool) ([]store.Promise, error) {
	at, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	for _, err := os.Stat(at); errors.Is(err, fs.ErrNotExist) && at != filepath.Dir(at); _, err = os.Stat(at) {
		at = filepath.Dir(at)
	}
	removeOld(at)
	folder, err := os.MkdirTemp(at, checkFolder)
	if err != nil {
		return nil, fmt.Errorf("check %s: %w", path, err)
	}
	defer os.RemoveAll(folder)
	t := &trial{ctx: ctx, folder: folder, begun: time.Now()}
	for range writersAtOnce {
		d, err := dir.Open(folder)
		if err != nil {
			return nil, err
		}
		defer d.Close()
		t.stores = append(t.stores, d)
	}
	name, local := t.stores[0].FileSystem()
	text := name + ", of this host alone"
	if !local {
		text = name + ", which other hosts may have mounted: a lease beside the lock of the system excludes them"
	}
	t.record("file system", false, text, nil)
	how, safe := t.stores[0].NoReplace()
	manner := "at once"
	if !safe {
		manner = "one after the other" // simultaneous writers might succeed by chance; in a job the lock separates them
	}
	t.record("put if absent", true, fmt.Sprintf("one of %d writers %s wrote a new file", writersAtOnce, manner), t.putIfAbsent(safe))
	t.record("read after write", true, "a file is replaced and read at once", t.replaced())
	t.record("listing after write and delete", true, "at once", t.listing())
	var slow error
	if !safe {
		slow = errors.New(how + ": two writers are kept apart by the lock of the output alone")
	}
	t.record("rename without replace", false, how, slow)
	if whole {
		t.record("names", true, fmt.Sprintf("%d with blanks, plus, percent and Unicode", len(oddNames)), t.names())
	}
	t.locks(local, whole)
	return t.promises, nil
}

// checkFolder is the prefix of the folder for a check; a folder older than oldCheck was left by a killed check.
const (
	checkFolder = store.TempPrefix + "check-"
	oldCheck    = time.Hour
)

// removeOld removes the folders of killed checks in a directory.
func removeOld(at string) {
	left, _ := filepath.Glob(filepath.Join(at, checkFolder+"*"))
	for _, folder := range left {
		if info, err := os.Lstat(folder); err == nil && info.IsDir() && time.Since(info.ModTime()) > oldCheck {
			_ = os.RemoveAll(folder)
		}
	}
}

// record records the result for a promise. A nil error means that it is kept.
func (t *trial) record(name string, needed bool, kept string, wrong error) {
	p := store.Promise{Name: name, State: store.Kept, Needed: needed, Found: kept, Took: time.Since(t.begun)}
	if wrong != nil {
		p.State, p.Found = store.Broken, wrong.Error()
	}
	t.promises, t.begun = append(t.promises, p), time.Now()
}

// putIfAbsent lets several stores put one name with different contents, at once or one after another.
func (t *trial) putIfAbsent(atOnce bool) error {
	errs := make([]error, len(t.stores))
	var all sync.WaitGroup
	for i, s := range t.stores {
		all.Go(func() { errs[i] = s.Put(t.ctx, store.Object{Name: "race", Data: []byte{byte('a' + i)}}) })
		if !atOnce {
			all.Wait()
		}
	}
	all.Wait()
	won := -1
	for i, err := range errs {
		switch {
		case err == nil && won >= 0:
			return fmt.Errorf("two of %d writers of one new file were told that they wrote it", len(errs))
		case err == nil:
			won = i
		case !errors.Is(err, store.ErrConflict):
			return err
		}
	}
	got, err := store.ReadFile(t.ctx, t.stores[0], "race")
	if err == nil && (won < 0 || string(got) != string(rune('a'+won))) {
		err = fmt.Errorf("the file holds %q, and writer %d was told that it wrote it", got, won)
	}
	return err
}

// replaced replaces a file with one store and reads it with another.
func (t *trial) replaced() error {
	for _, text := range []string{"one", strings.Repeat("two", 50_000), ""} {
		err := t.stores[0].Replace(t.ctx, "tables/file", func(w io.Writer) error {
			_, err := io.WriteString(w, text)
			return err
		})
		if err != nil {
			return err
		}
		if got, err := store.ReadFile(t.ctx, t.stores[1], "tables/file"); err != nil || string(got) != text {
			return fmt.Errorf("%d bytes were written and %d read, %w", len(text), len(got), err)
		}
	}
	return nil
}

// listing lists what was written and removed.
func (t *trial) listing() error {
	for _, step := range []struct {
		change func() error
		want   []string
	}{
		{func() error { return nil }, []string{"race", "tables/file"}},
		{func() error { return t.stores[0].Remove(t.ctx, "race") }, []string{"tables/file"}},
	} {
		if err := step.change(); err != nil {
			return err
		}
		names, err := store.Names(t.ctx, t.stores[1], "", store.Deep)
		if err != nil || !slices.Equal(names, step.want) {
			return fmt.Errorf("listed %q, want %q, %w", names, step.want, err)
		}
	}
	return nil
}

// oddNames are names that some file systems change or refuse.
var oddNames = []string{"a b", "a+b", "a%20b", "ä/ö", "日本", "a&b=c", "~a'(b)!", strings.Repeat("n", 200)}

// names puts and lists unusual names.
func (t *trial) names() error {
	for _, name := range oddNames {
		if err := t.stores[0].Put(t.ctx, store.Object{Name: "names/" + name, Data: []byte(name)}); err != nil {
			return err
		}
		got, err := store.ReadFile(t.ctx, t.stores[1], "names/"+name)
		if err != nil || string(got) != name {
			return fmt.Errorf("%q holds %q, %w", name, got, err)
		}
	}
	found, err := store.Names(t.ctx, t.stores[1], "names/", store.Deep)
	if err != nil || len(found) != len(oddNames) {
		return fmt.Errorf("of %d names %d are listed, %w", len(oddNames), len(found), err)
	}
	return nil
}

// locks checks the lock of the system, within this process and in another one, and the lease between hosts.
func (t *trial) locks(local, whole bool) {
	const name = "lock"
	release, err := t.stores[0].Lock(t.ctx, name, "a check")
	if err != nil { // not required on a network file system
		t.record("lock of the system (flock)", local, "", err)
	} else {
		_, err := t.stores[1].Lock(t.ctx, name, "a check")
		var locked *store.LockedError
		if errors.As(err, &locked) {
			err = nil
		} else {
			err = fmt.Errorf("two hold it at the same time: %w", err)
		}
		t.record("lock of the system (flock)", local, "a second one is refused", err)
		if whole {
			t.otherProcess(local, filepath.Join(t.folder, name))
		}
		release()
	}
	if !local || whole {
		t.record("lease between hosts", !local, fmt.Sprintf("one of %d writers made a new generation", writersAtOnce), t.lease())
	}
}

// otherProcess lets a system program request a lock that this process holds.
func (t *trial) otherProcess(local bool, path string) {
	const name = "lock between processes"
	program, err := exec.LookPath("flock")
	if err != nil {
		t.promises = append(t.promises, store.Promise{Name: name, State: store.Unknown, Found: "the program flock (util-linux) is not there"})
		t.begun = time.Now()
		return
	}
	err = exec.CommandContext(t.ctx, program, "--nonblock", "--conflict-exit-code", "75", path, "true").Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() == 75:
		err = nil
	default:
		err = fmt.Errorf("another process got it as well (%w)", err)
	}
	t.record(name, local, "another process is refused", err)
}

// lease lets several writers create the next generation of a lease.
func (t *trial) lease() error {
	g := generations{filepath.Join(t.folder, leaseFolder)}
	for _, old := range []objects.Version{objects.Absent, "1"} {
		var all sync.WaitGroup
		errs := make([]error, writersAtOnce)
		for i := range errs {
			all.Go(func() {
				_, errs[i] = g.Write(t.ctx, "lease", old, objects.Content{ReaderAt: strings.NewReader("x"), Size: 1})
			})
		}
		all.Wait()
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
			} else if !errors.Is(err, objects.ErrRefused) {
				return err
			}
		}
		if won != 1 {
			return fmt.Errorf("%d of %d writers made generation %q+1", won, len(errs), old)
		}
	}
	return nil
}
