package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"golang.org/x/text/unicode/norm"

	"latentbeam/internal/config"
)

// errEnough stops a walk that has found more files than allowed.
var errEnough = errors.New("enough")

// glob returns the local paths that match a pattern, at most limit+1. ** matches any number of folders, {a,b} alternatives. A
// pattern with ** does not match hidden files and, if it ends in * or **, no folders.
func glob(pattern string, limit int) (found []string, err error) {
	base, rest := doublestar.SplitPattern(filepath.ToSlash(pattern))
	files := os.DirFS(base)
	options := []doublestar.GlobOption{doublestar.WithFailOnIOErrors()}
	if strings.Contains(rest, "**") {
		files = &tree{files, base}
		options = append(options, doublestar.WithNoHidden())
		if last := path.Base(rest); last == "*" || last == "**" {
			options = append(options, doublestar.WithFilesOnly())
		}
	}
	err = doublestar.GlobWalk(files, path.Clean(rest), func(name string, _ fs.DirEntry) error {
		found = append(found, filepath.FromSlash(path.Join(base, name)))
		if len(found) > limit {
			return errEnough
		}
		return nil
	}, options...)
	if errors.Is(err, errEnough) {
		err = nil
	}
	return found, err
}

// tree is the files below root. It does not follow a link to a folder that contains the link, so that a walk ends.
type tree struct {
	fs.FS
	root string
}

// ReadDir implements fs.ReadDirFS.
func (t *tree) ReadDir(name string) ([]fs.DirEntry, error) {
	here, err := os.Stat(filepath.Join(t.root, name))
	if err != nil {
		return nil, err
	}
	for at := name; at != "."; {
		at = path.Dir(at)
		if above, err := os.Stat(filepath.Join(t.root, at)); err == nil && os.SameFile(here, above) {
			return nil, nil
		}
	}
	return fs.ReadDir(t.FS, name)
}

// Stat implements fs.StatFS.
func (t *tree) Stat(name string) (fs.FileInfo, error) { return fs.Stat(t.FS, name) }

// matchKey reports whether the key of an object matches a pattern, with the rules for file names.
func matchKey(pattern, key string) (bool, error) { return doublestar.Match(pattern, key) }

// OtherForm returns the path of a local file whose name differs from a path only in its Unicode form: macOS stores accents as
// separate characters (NFD), most other programs do not (NFC). It returns "" if there is none.
func OtherForm(at string) string {
	if norm.NFC.IsNormalString(at) && norm.NFD.IsNormalString(at) || IsAddress(at) {
		return ""
	}
	found := ""
	if filepath.IsAbs(at) {
		found = string(filepath.Separator)
	}
	for part := range strings.SplitSeq(filepath.ToSlash(filepath.Clean(at)), "/") {
		next := filepath.Join(found, part)
		if _, err := os.Lstat(next); err != nil {
			if next = sameName(found, part); next == "" {
				return ""
			}
		}
		found = next
	}
	if found == filepath.Clean(at) {
		return ""
	}
	return found
}

// sameName returns the file in a folder whose name equals name in NFC, "" if there is none.
func sameName(folder, name string) string {
	entries, err := os.ReadDir(cmp.Or(folder, "."))
	if err != nil {
		return ""
	}
	name = norm.NFC.String(name)
	for _, e := range entries {
		if norm.NFC.String(e.Name()) == name {
			return filepath.Join(folder, e.Name())
		}
	}
	return ""
}

// form returns the Unicode form of a name.
func form(name string) string {
	switch {
	case norm.NFC.IsNormalString(name):
		return "NFC"
	case norm.NFD.IsNormalString(name):
		return "NFD"
	}
	return "a mixed form"
}

// List returns the names of the files in and below a folder, local or in a bucket: sorted, with slashes, without hidden files,
// at most limit.
func List(ctx context.Context, folder string, limit int) (names []string, err error) {
	if IsAddress(folder) {
		names, err = listAddress(ctx, folder, limit)
	} else {
		err = doublestar.GlobWalk(&tree{os.DirFS(folder), folder}, "**", func(name string, _ fs.DirEntry) error {
			if names = append(names, name); len(names) > limit {
				return errEnough
			}
			return nil
		}, doublestar.WithFailOnIOErrors(), doublestar.WithNoHidden(), doublestar.WithFilesOnly())
	}
	if len(names) > limit {
		err = fmt.Errorf("%s holds more than %d files", folder, limit)
	}
	slices.Sort(names)
	return names, err
}

func listAddress(ctx context.Context, folder string, limit int) (names []string, err error) {
	p, err := parse(ctx, folder, config.BucketSchemes)
	if err != nil {
		return nil, err
	}
	for o, err := range p.server.Objects(ctx, p.key, false) {
		if err != nil {
			return nil, err
		}
		if name := strings.TrimPrefix(o.Key, p.key); !hidden(name) && !strings.HasSuffix(name, "/") && name != "" {
			names = append(names, name)
		}
		if len(names) > limit {
			break
		}
	}
	return names, nil
}
