package open

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/bucket/buckettest"
	"latentbeam/internal/storage/store/dir"
	"latentbeam/internal/storage/store/storetest"
	"latentbeam/schemas/objects"
)

// hosts is a directory that every store uses from a host of its own: the lock of the system excludes nobody.
func hosts(t testing.TB) storetest.Output {
	path, clock := filepath.Join(t.TempDir(), "out"), buckettest.NewClock()
	var mortals sync.Map
	return storetest.Output{
		Open: func(context.Context) (store.Store, error) {
			d, err := dir.Open(path)
			if err != nil {
				return nil, err
			}
			mortal := &buckettest.Mortal{Clock: clock}
			mortals.Store(d, mortal)
			d.Guard(leases(path, mortal), false)
			return d, nil
		},
		Die: func(s store.Store) {
			mortal, _ := mortals.Load(s)
			mortal.(*buckettest.Mortal).Die()
		},
		Leases: true,
		Temps: func() (n int, err error) {
			err = filepath.WalkDir(path, func(name string, e fs.DirEntry, err error) error {
				if err == nil && e.IsDir() && e.Name() == leaseFolder {
					return fs.SkipDir
				}
				if strings.HasPrefix(filepath.Base(name), store.TempPrefix) {
					n++
				}
				return err
			})
			return n, err
		},
	}
}

// TestLawsBetweenHosts: a directory on a network keeps every law by its leases alone.
func TestLawsBetweenHosts(t *testing.T) {
	skip := map[string]bool{"large objects": true} // as on one host
	for _, law := range storetest.Laws() {
		if skip[law.Name] {
			continue
		}
		t.Run(law.Name, func(t *testing.T) {
			if err := law.Try(t, hosts(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestHistoriesBetweenHosts(t *testing.T) {
	storetest.Histories(t, hosts(t), 10, ", each on a host of its own, in a directory")
}

// TestSlowWriterOfLeases: who was slow may make a generation that was removed since, and is refused.
func TestSlowWriterOfLeases(t *testing.T) {
	g := generations{t.TempDir()}
	write := func(old objects.Version, text string) (objects.Version, error) {
		return g.Write(t.Context(), ".lock", old, objects.Content{ReaderAt: strings.NewReader(text), Size: int64(len(text))})
	}
	first, err := write(objects.Absent, "first")
	if err != nil {
		t.Fatal(err)
	}
	v := first
	for range 3 * kept {
		if v, err = write(v, "next"); err != nil {
			t.Fatal(err)
		}
	}
	for _, old := range []objects.Version{objects.Absent, first, "3"} {
		if _, err := write(old, "late"); !errors.Is(err, objects.ErrRefused) {
			t.Errorf("over version %q: %v", old, err)
		}
	}
	if o, err := g.Stat(t.Context(), ".lock"); err != nil || o.Version != v {
		t.Errorf("%+v, %v; want version %s", o, err, v)
	}
	if files, err := filepath.Glob(filepath.Join(g.root, ".lock", "*")); err != nil || len(files) != kept {
		t.Errorf("%q stay, %v", files, err)
	}
}

// TestFileSystems: a directory of a test is local, and no lease slows it down.
func TestFileSystems(t *testing.T) {
	d, err := dir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if name, local := d.FileSystem(); !local {
		t.Skipf("the directory of tests is on %s", name)
	}
	s, err := Output(t.Context(), d.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	release, err := s.Lock(t.Context(), ".lock", "a test")
	if err != nil {
		t.Fatal(err)
	}
	release()
	if found, err := filepath.Glob(filepath.Join(d.Path(), leaseFolder)); err != nil || found != nil {
		t.Errorf("%q, %v", found, err)
	}
}
