package source

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"latentbeam/internal/config"
	"latentbeam/internal/config/document"
	"latentbeam/schemas/fault"
)

// SizeVariable is the environment variable that limits the copies of single files, such as 50GiB. Copies of models are not
// limited.
const SizeVariable = "LATENTBEAM_CACHE_SIZE"

const defaultSize = 32 << 30

// cacheSize returns the limit from the environment.
func cacheSize() (int64, error) {
	text := os.Getenv(SizeVariable)
	if text == "" {
		return defaultSize, nil
	}
	var size config.ByteSize
	if err := size.Set(text); err != nil {
		return 0, fault.Usage(document.NewError(document.Position{File: SizeVariable}, "%q: %v", text, err))
	}
	return int64(size), nil
}

// taken estimates the size of the files in the cache, by directory. It is measured once, and again when there seems to be no
// room left.
var taken struct {
	sync.Mutex
	bytes map[string]int64
}

// makeRoom removes the least recently used files that are not in use, until there is room for need bytes. Files in use are
// never removed.
func makeRoom(dir string, need int64) error {
	limit, err := cacheSize()
	if err != nil {
		return err
	}
	taken.Lock()
	defer taken.Unlock()
	if taken.bytes == nil {
		taken.bytes = map[string]int64{}
	}
	now, known := taken.bytes[dir]
	if !known || now+need > limit {
		entries, sum := list(dir)
		now = sum
		for _, e := range entries {
			if now+need <= limit {
				break
			}
			if e.remove() {
				now -= e.bytes
			}
		}
	}
	taken.bytes[dir] = now + need
	return nil
}

// kept is an entry on disk.
type kept struct {
	dir   string
	bytes int64
	used  time.Time
}

// list returns the entries of a directory, least recently used first, and their total size.
func list(dir string) (entries []kept, sum int64) {
	names, _ := os.ReadDir(dir)
	for _, n := range names {
		if !n.IsDir() {
			continue
		}
		e := kept{dir: filepath.Join(dir, n.Name())}
		if info, err := os.Stat(e.dir + useEnd); err == nil {
			e.used = info.ModTime()
		}
		_ = filepath.WalkDir(e.dir, func(_ string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				if info, err := d.Info(); err == nil {
					e.bytes += info.Size()
				}
			}
			return nil
		})
		entries = append(entries, e)
		sum += e.bytes
	}
	slices.SortFunc(entries, func(a, b kept) int {
		return cmp.Or(a.used.Compare(b.used), strings.Compare(a.dir, b.dir))
	})
	return entries, sum
}

// remove removes an entry if it is not in use.
func (e kept) remove() bool {
	l := flock.New(e.dir + useEnd)
	defer l.Close()
	if free, err := l.TryLock(); err != nil || !free || !isCurrent(l) {
		return false
	}
	if os.RemoveAll(e.dir) != nil {
		return false
	}
	_ = os.Remove(e.dir + fillEnd)
	_ = os.Remove(e.dir + useEnd)
	return true
}
