package hub

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"latentbeam/internal/system"
)

// Cache is a directory of repositories in the layout of huggingface_hub. Each repository has a folder models--OWNER--NAME with
//
//	blobs/ID                    contents: ID is the SHA-256 of a large file, git's SHA-1 of a small one
//	snapshots/COMMIT/PATH       links to the blobs
//	refs/REVISION               the commit of a branch or tag
type Cache string

// DefaultCache returns the cache named by HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, HF_HOME or XDG_CACHE_HOME, in this order, else
// ~/.cache/huggingface/hub.
func DefaultCache() (Cache, error) {
	for _, name := range []string{"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"} {
		if dir := os.Getenv(name); dir != "" {
			return expand(dir)
		}
	}
	home, err := homeDir()
	if err != nil {
		return "", err
	}
	return Cache(filepath.Join(home, "hub")), nil
}

// homeDir returns HF_HOME or its default.
func homeDir() (string, error) {
	if dir := os.Getenv("HF_HOME"); dir != "" {
		c, err := expand(dir)
		return string(c), err
	}
	if dir := os.Getenv("XDG_CACHE_HOME"); dir != "" {
		c, err := expand(dir)
		return filepath.Join(string(c), "huggingface"), err
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find the cache of models: %w; set HF_HOME", err)
	}
	return filepath.Join(home, ".cache", "huggingface"), nil
}

// expand replaces variables and a leading ~, as huggingface_hub does.
func expand(dir string) (Cache, error) {
	dir = os.ExpandEnv(dir)
	if rest, ok := strings.CutPrefix(dir, "~"); ok && (rest == "" || rest[0] == '/') {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("find the cache of models: %w", err)
		}
		dir = home + rest
	}
	return Cache(dir), nil
}

// folder returns the directory of a repository.
func (c Cache) folder(repo string) string {
	return filepath.Join(string(c), "models--"+strings.ReplaceAll(repo, "/", "--"))
}

// snapshot returns the directory with the files of a commit.
func (c Cache) snapshot(repo, commit string) string {
	return filepath.Join(c.folder(repo), "snapshots", commit)
}

// Find returns the directory with the files of a repository, and their commit. The error wraps fs.ErrNotExist if this revision
// of the repository was not downloaded.
func (c Cache) Find(r Repo) (dir, commit string, err error) {
	if commit = r.Revision; !commitID.MatchString(commit) {
		if commit, err = c.ref(r); err != nil {
			return "", "", err
		}
	}
	dir = c.snapshot(r.Name, commit)
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return "", "", fmt.Errorf("find %s in %s: %w", r, c, err)
	}
	return dir, commit, nil
}

// ref reads the commit of a branch or tag.
func (c Cache) ref(r Repo) (string, error) {
	data, err := system.ReadRegular(filepath.Join(c.folder(r.Name), "refs", filepath.FromSlash(r.wanted())), maxRef)
	if err != nil {
		return "", fmt.Errorf("find %s in %s: %w", r, c, err)
	}
	commit := strings.TrimSpace(string(data))
	if !commitID.MatchString(commit) {
		return "", fmt.Errorf("find %s in %s: refs/%s holds no commit: %w", r, c, r.wanted(), fs.ErrNotExist)
	}
	return commit, nil
}

// maxRef limits the size of a file that names a commit.
const maxRef = 1 << 10

// setRef atomically records the commit of a branch or tag.
func (c Cache) setRef(r Repo, commit string) error {
	if r.wanted() == commit {
		return nil
	}
	path := filepath.Join(c.folder(r.Name), "refs", filepath.FromSlash(r.wanted()))
	if old, err := system.ReadRegular(path, maxRef); err == nil && string(old) == commit {
		return nil
	}
	return system.ReplaceFile(path, []byte(commit))
}
