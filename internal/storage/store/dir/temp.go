package dir

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"latentbeam/internal/storage/store"
)

// noScope is the scope in a temporary name whose writer held no lock.
const noScope = "00000000"

// temp is a temporary file that will get a final name.
type temp struct {
	dir   *Dir
	name  string // the temporary name
	final string
	file  *os.File
}

// tempName returns a new name in the directory of final: .tmp-SCOPE-RUN-N.
func (d *Dir) tempName(final string) string {
	d.mu.Lock()
	scope := d.scope
	d.mu.Unlock()
	return path.Join(path.Dir(final), fmt.Sprintf("%s%s-%s-%x", store.TempPrefix, scope, d.run, d.temps.Add(1)))
}

// createTemp opens an empty temporary file beside final. The directory must exist.
func (d *Dir) createTemp(final string) (*temp, error) {
	t := &temp{dir: d, name: d.tempName(final), final: final}
	err := d.about(Call{Op: OpCreate, Name: t.name})
	if err == nil {
		t.file, err = d.root.OpenFile(t.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	}
	if err != nil {
		return nil, d.failed("create a file for", final, err)
	}
	return t, nil
}

// Write appends to the temporary file; it makes temp an io.Writer for Replace.
func (t *temp) Write(b []byte) (int, error) {
	if err := t.dir.about(Call{Op: OpWrite, Name: t.name, Data: b}); err != nil {
		return 0, t.dir.failed("write", t.final, err)
	}
	n, err := t.file.Write(b)
	if err != nil {
		return n, t.dir.failed("write", t.final, err)
	}
	return n, nil
}

// sync writes the bytes to disk and closes the file. It must be called only once, even if it fails.
func (t *temp) sync() error {
	err := t.dir.about(Call{Op: OpSync, Name: t.name})
	if err == nil {
		err = t.file.Sync()
	}
	if err != nil {
		t.file.Close()
		return t.dir.syncFailed(t.final, err)
	}
	if err := t.file.Close(); err != nil {
		return t.dir.failed("close", t.final, err)
	}
	return nil
}

// discard removes the temporary file after a failure, or when its bytes are already published. If it fails, CleanTemps removes
// the file at the next start.
func (t *temp) discard() {
	t.file.Close()
	if t.dir.about(Call{Op: OpRemove, Name: t.name}) == nil {
		t.dir.root.Remove(t.name)
	}
}

// CleanTemps removes temporary files of dead runs and returns their number. The Dir must hold a lock. It removes only files
// that were written under the same lock name or under a name in free, which the caller knows to be free. So runs that share the
// directory with other locks (shards of one job) are safe.
func (d *Dir) CleanTemps(ctx context.Context, free ...string) (int, error) {
	d.mu.Lock()
	scope := d.scope
	d.mu.Unlock()
	if scope == noScope {
		return 0, errors.New("clean temporary files: the output is not locked by this run")
	}
	if err := d.mine(ctx); err != nil {
		return 0, err
	}
	ours := store.TempPrefix + scope + "-" + d.run + "-"
	dead := []string{store.TempPrefix + scope + "-"}
	for _, lock := range free {
		dead = append(dead, store.TempPrefix+scopeOf(lock)+"-")
	}
	removed := 0
	err := fs.WalkDir(d.root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrPermission) && name != "." && entry.IsDir() {
			return fs.SkipDir // not ours, such as lost+found of a volume
		}
		if errors.Is(err, fs.ErrNotExist) && name != "." {
			return nil // its owner has removed it meanwhile, such as a check of the store
		}
		if err != nil {
			return err
		}
		base := path.Base(name)
		left := slices.ContainsFunc(dead, func(prefix string) bool { return strings.HasPrefix(base, prefix) })
		if !entry.Type().IsRegular() || !left || strings.HasPrefix(base, ours) {
			return ctx.Err()
		}
		if err := d.about(Call{Op: OpRemove, Name: name}); err != nil {
			return err
		}
		if err := d.root.Remove(name); err != nil {
			return ifThere(err)
		}
		removed++
		return nil
	})
	if err != nil {
		return removed, d.failed("clean", "temporary files", err)
	}
	return removed, nil
}

// ifThere returns err, or nil if it says that a file does not exist.
func ifThere(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// scopeOf returns eight hex digits derived from a lock name.
func scopeOf(lock string) string {
	sum := sha256.Sum256([]byte(lock))
	return hex.EncodeToString(sum[:4])
}
