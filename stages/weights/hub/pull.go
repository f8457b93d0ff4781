package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"

	"golang.org/x/sync/errgroup"

	"latentbeam/internal/system"
	"latentbeam/schemas/fault"
)

// Options of Pull.
type Options struct {
	Include []string // patterns that choose the weights; none: those that a job needs
	Verify  bool     // check existing files again, and fetch damaged ones
	// Begin is called once, before anything is fetched, with the planned work.
	Begin func(p *Progress)
}

// Progress is the progress of a pull.
type Progress struct {
	Total int64        // bytes of all chosen files
	Moved atomic.Int64 // bytes that are there
}

// Pulled is the result of Pull.
type Pulled struct {
	Repo
	RepoInfo
	Dir     string     // directory with the files
	Files   []RepoFile // chosen files
	Fetched int        // how many of them were fetched
	LeftOut []RepoFile
}

// parallel is the number of files that are fetched at a time.
const parallel = 4

// Pull downloads the files of a repository that a job needs into the cache. Every file is verified by its digest. An
// interrupted pull resumes. The reference to the commit is written last, so that Find returns a repository only when it is
// complete.
func (c *Client) Pull(ctx context.Context, cache Cache, r Repo, o Options) (*Pulled, error) {
	result, err := c.pull(ctx, cache, r, o)
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return nil, fault.TryAgain(fmt.Errorf("pull %s: %w; make room in %s, or set HF_HOME to another disk, and run the same command "+
			"again", r, err, cache))
	}
	if err != nil {
		return nil, c.explain(r, err)
	}
	return result, nil
}

func (c *Client) pull(ctx context.Context, cache Cache, r Repo, o Options) (*Pulled, error) {
	info, err := c.Info(ctx, r)
	if err != nil {
		return nil, err
	}
	files, err := c.Files(ctx, r.Name, info.Commit)
	if err != nil {
		return nil, err
	}
	chosen, err := choose(files, o.Include)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(chosen, func(f RepoFile) bool { return path.Base(f.Path) != cardName }) {
		return nil, fault.Usage(fmt.Errorf("it holds nothing that a job reads, only %s", listed(files)))
	}
	result := &Pulled{Repo: r, RepoInfo: info, Dir: cache.snapshot(r.Name, info.Commit), Files: chosen}
	for _, f := range files {
		if !slices.Contains(chosen, f) {
			result.LeftOut = append(result.LeftOut, f)
		}
	}
	if result.Fetched, err = c.fetchAll(ctx, cache, r.Name, info.Commit, chosen, o); err != nil {
		return nil, err
	}
	if err := cache.setRef(r, info.Commit); err != nil {
		return nil, err
	}
	return result, nil
}

// fetchAll fetches the chosen files of a commit and returns how many were missing.
func (c *Client) fetchAll(ctx context.Context, cache Cache, repo, commit string, chosen []RepoFile, o Options) (int, error) {
	progress := &Progress{}
	folder := cache.folder(repo)
	var missing []RepoFile
	var room int64
	for _, f := range chosen {
		progress.Total += f.Size
		if exists(cache.snapshot(repo, commit), folder, f, o.Verify) {
			progress.Moved.Add(f.Size)
			continue
		}
		missing = append(missing, f)
		room += f.Size - partOf(folder, f)
	}
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return 0, err
	}
	if free, known := system.FreeBytes(folder); known && room > free {
		return 0, fmt.Errorf("%d bytes are missing and the disk of %s has room for %d: %w", room, folder, free, syscall.ENOSPC)
	}
	if o.Begin != nil {
		o.Begin(progress)
	}
	fetching, ctx := errgroup.WithContext(ctx)
	fetching.SetLimit(parallel)
	for _, f := range missing {
		fetching.Go(func() error { return c.fetchOne(ctx, cache, repo, commit, f, o.Verify, progress) })
	}
	return len(missing), fetching.Wait()
}

// fetchOne fetches a file, unless its blob is there, and links it into the snapshot.
func (c *Client) fetchOne(ctx context.Context, cache Cache, repo, commit string, f RepoFile, verify bool, p *Progress) error {
	folder := cache.folder(repo)
	locks := filepath.Join(string(cache), ".locks", filepath.Base(folder))
	if err := c.fetch(ctx, folder, locks, c.resolve(repo, commit, f.Path), f, verify, &p.Moved); err != nil {
		return err
	}
	return link(filepath.Join(folder, "blobs", f.ID), filepath.Join(cache.snapshot(repo, commit), filepath.FromSlash(f.Path)))
}

// link makes path refer to the blob: by a relative link, or if the file system has no links by moving the blob.
func link(blob, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	target, err := filepath.Rel(filepath.Dir(path), blob)
	if err != nil {
		return err
	}
	if old, err := os.Readlink(path); err == nil && old == target {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if os.Symlink(target, path) == nil {
		return nil
	}
	return os.Rename(blob, path)
}

// exists reports whether a file of a snapshot is there, and with verify whether its content is right. A damaged file is removed.
func exists(snapshot, folder string, f RepoFile, verify bool) bool {
	path := filepath.Join(snapshot, filepath.FromSlash(f.Path))
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	if info.Size() == f.Size && (!verify || intact(path, f)) {
		return true
	}
	_ = os.Remove(filepath.Join(folder, "blobs", f.ID)) // it is fetched again, and an error appears then
	_ = os.Remove(path)
	return false
}

// intact compares the digest of a file.
func intact(path string, f RepoFile) bool {
	in, err := system.OpenRegular(path)
	if err != nil {
		return false
	}
	defer in.Close()
	sum := digestOf(f)
	_, err = io.Copy(sum, in)
	return err == nil && fmt.Sprintf("%x", sum.Sum(nil)) == f.ID
}

// partOf returns how much of a blob an earlier attempt has downloaded.
func partOf(folder string, f RepoFile) int64 {
	path := filepath.Join(folder, "blobs", f.ID)
	for _, p := range []string{path, path + ".incomplete"} {
		if info, err := os.Stat(p); err == nil && info.Size() <= f.Size {
			return info.Size()
		}
	}
	return 0
}
