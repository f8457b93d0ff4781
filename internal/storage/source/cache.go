package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"latentbeam/internal/storage/fingerprints"
	"latentbeam/internal/storage/store/bucket"
	"latentbeam/schemas/fault"
	"latentbeam/schemas/objects"
)

// LevelNotice is the log level for telling the user that a long copy has started.
const LevelNotice = slog.LevelInfo + 2

// Kinds of entries. Each has its own directory, because only entries of files are removed to make room.
const (
	kindFiles  = "files"
	kindModels = "models"
)

// noticeBytes is the size of a copy from which the user is told.
const noticeBytes = 256 << 20

// cacheDir returns the directory of the copies.
func cacheDir() (string, error) {
	dir, err := fingerprints.CacheDir()
	if err != nil {
		err = fault.Usage(fmt.Errorf("there is no directory for copies of what lies elsewhere: %w; set %s to one with room", err,
			fingerprints.CacheVariable))
	}
	return dir, err
}

// item is a file of an entry.
type item struct {
	name   string // path below the entry's files, with slashes
	object objects.Object
}

// cachedCopy is a copy in the cache: the files of one address at one version.
type cachedCopy struct {
	server  *bucket.Bucket
	kind    string
	address string
	items   []item
}

// id returns the name of the entry. Another version has another id.
func (e cachedCopy) id() string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%q\n", e.address)
	for _, i := range e.items {
		fmt.Fprintf(sum, "%q %q %d\n", i.name, i.object.Version, i.object.Size)
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

func (e cachedCopy) bytes() (n int64) {
	for _, i := range e.items {
		n += i.object.Size
	}
	return n
}

// facts are the recorded facts about an entry's files. A file in facts is complete.
type facts struct {
	Address string              `json:"address"`
	Files   map[string]fileFact `json:"files"`
}

type fileFact struct {
	Size     int64  `json:"size"`
	SHA256   string `json:"sha256"`
	Modified int64  `json:"modified"` // time of the copy, in nanoseconds since 1970
}

const factsName = "facts.json"

// copied is an entry on disk. Other processes may read it at the same time. It stays until release is called.
type copied struct {
	dir     string
	facts   facts
	release func()
}

// path returns the path of a file of the entry.
func (c copied) path(name string) string {
	return filepath.Join(c.dir, "files", filepath.FromSlash(name))
}

// obtain returns the entry. If no process has copied it yet, it is copied. An interrupted copy is resumed.
func (e cachedCopy) obtain(ctx context.Context) (copied, error) {
	root, err := cacheDir()
	if err != nil {
		return copied{}, err
	}
	c := copied{dir: filepath.Join(root, e.kind, e.id())}
	if err := os.MkdirAll(filepath.Dir(c.dir), 0o700); err != nil {
		return c, unwritable(root, err)
	}
	l, err := lockFile(ctx, c.dir+useEnd, false)
	if err != nil {
		return c, unwritable(root, err)
	}
	for tries := 0; ; tries++ {
		if c.facts = readFacts(c.dir); e.whole(c) {
			now := time.Now()
			_ = os.Chtimes(c.dir+useEnd, now, now) // time of last use
			c.release = func() { _ = l.Close() }
			return c, nil
		}
		if tries == fillsMax {
			err = unwritable(root, fmt.Errorf("%s changes while it is copied", c.dir))
		} else {
			err = e.fill(ctx, root, c)
		}
		if err != nil {
			_ = l.Close()
			return c, err
		}
	}
}

// fillsMax limits how often a copy is repeated that is damaged at once.
const fillsMax = 3

// fill copies the entry's files, while no other process copies them. Readers of the entry keep their open files.
func (e cachedCopy) fill(ctx context.Context, root string, c copied) error {
	l, err := lockFile(ctx, c.dir+fillEnd, true)
	if err != nil {
		return unwritable(root, err)
	}
	defer l.Close()
	if c.facts = readFacts(c.dir); e.whole(c) {
		return nil // another process was faster
	}
	n := e.bytes()
	if e.kind == kindFiles {
		if err := makeRoom(filepath.Dir(c.dir), n); err != nil {
			return err
		}
	}
	if n >= noticeBytes {
		slog.Log(ctx, LevelNotice, "copying to this host", "from", e.address, "files", len(e.items), "bytes", n, "to", c.dir)
	}
	return e.download(ctx, root, c)
}

// whole reports whether every file of the entry is there and unchanged. A file with a newer time is read again.
func (e cachedCopy) whole(c copied) bool {
	for _, i := range e.items {
		f, known := c.facts.Files[i.name]
		info, err := os.Stat(c.path(i.name))
		if !known || err != nil || f.Size != i.object.Size || info.Size() != f.Size {
			return false
		}
		if info.ModTime().UnixNano() != f.Modified {
			if sum, err := sumOf(c.path(i.name)); err != nil || sum != f.SHA256 {
				slog.Warn("a copy in the cache was changed; it is copied again", "file", c.path(i.name), "from", e.address)
				return false
			}
		}
	}
	return true
}

// readFacts reads the facts of an entry. They are empty if nothing was copied.
func readFacts(dir string) facts {
	var f facts
	data, err := os.ReadFile(filepath.Join(dir, factsName))
	if err != nil || json.Unmarshal(data, &f) != nil {
		f = facts{}
	}
	if f.Files == nil {
		f.Files = map[string]fileFact{}
	}
	return f
}

// writeFacts replaces the facts of an entry.
func writeFacts(dir string, f facts) error {
	data, err := json.Marshal(f)
	if err != nil {
		return err
	}
	temp := filepath.Join(dir, factsName+".tmp")
	if err := os.WriteFile(temp, data, 0o600); err != nil {
		return err
	}
	return os.Rename(temp, filepath.Join(dir, factsName))
}

// unwritable returns an error that says that the cache cannot be used.
func unwritable(root string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fault.TryAgain(fmt.Errorf("the cache of copies %s: %w; make room there, or set %s to another directory", root, err,
		fingerprints.CacheVariable))
}
