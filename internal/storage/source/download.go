package source

import (
	"context"
	"crypto/md5" //nolint:gosec // a checksum of services, no secret
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"latentbeam/internal/storage/store"
	"latentbeam/schemas/fault"
)

const (
	filesAtOnce = 4       // files that are copied at the same time
	rangeBytes  = 8 << 20 // size of one request
	tries       = 3       // attempts to get content with the right checksum
)

// download copies the missing files and adds each to c's facts.
func (e cachedCopy) download(ctx context.Context, root string, c copied) error {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return unwritable(root, err)
	}
	var mu sync.Mutex // guards c.facts
	c.facts.Address = e.address
	files, ctx := errgroup.WithContext(ctx)
	files.SetLimit(filesAtOnce)
	for _, i := range e.missing(c) {
		files.Go(func() error {
			f, err := e.downloadFile(ctx, root, c, i)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			c.facts.Files[i.name] = f
			return writeFacts(c.dir, c.facts)
		})
	}
	if err := files.Wait(); err != nil {
		return err
	}
	_ = os.RemoveAll(filepath.Join(c.dir, partsName))
	return nil
}

// partsName is the directory of incomplete files.
const partsName = "parts"

// missing returns the items that were not copied yet.
func (e cachedCopy) missing(c copied) (items []item) {
	for _, i := range e.items {
		if one := (cachedCopy{items: []item{i}}); !one.whole(c) {
			items = append(items, i)
		}
	}
	return items
}

// described adds facts to an item of a list that the service reports only for single objects.
func (e cachedCopy) described(ctx context.Context, i item) (item, error) {
	if i.object.Sum != "" {
		return i, nil
	}
	o, err := e.server.Find(ctx, i.object.Key)
	if err == nil && o.Version != i.object.Version {
		err = fault.TryAgain(fmt.Errorf("copy %s: %w", i.object.Key, store.ErrChanged))
	}
	return item{i.name, o}, err
}

// downloadFile copies one file and checks it. A checksum that is wrong twice for the same content is ignored, because some
// services return entity tags that only measure like a checksum.
func (e cachedCopy) downloadFile(ctx context.Context, root string, c copied, i item) (fileFact, error) {
	part, final := filepath.Join(c.dir, partsName, filepath.FromSlash(i.name)), c.path(i.name)
	for _, path := range []string{part, final} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return fileFact{}, unwritable(root, err)
		}
	}
	i, err := e.described(ctx, i)
	if err != nil {
		return fileFact{}, err
	}
	before := ""
	for try := 1; ; try++ {
		s, err := e.transfer(ctx, root, part, i)
		if err != nil {
			return fileFact{}, err
		}
		sha := s.sha()
		if s.right() || sha == before && strings.HasPrefix(i.object.Sum, "md5:") {
			if !s.right() {
				slog.Warn("the store sends a content that is not the one of its entity tag, twice alike: it is taken as it is; if it turns out "+
					"to be damaged, the store is to blame, not the file", "object", i.object.Key, "entity tag", i.object.Sum, "sha256", sha)
			}
			if err := os.Rename(part, final); err != nil {
				return fileFact{}, unwritable(root, err)
			}
			info, err := os.Stat(final)
			if err != nil {
				return fileFact{}, unwritable(root, err)
			}
			return fileFact{Size: i.object.Size, SHA256: sha, Modified: info.ModTime().UnixNano()}, nil
		}
		if before = sha; try == tries {
			return fileFact{}, fault.TryAgain(fmt.Errorf("copy %s: %d times the content did not have its checksum %s",
				i.object.Key, try, i.object.Sum))
		}
		if err := os.Remove(part); err != nil {
			return fileFact{}, unwritable(root, err)
		}
	}
}

// transfer writes the object to part, after what an earlier copy of this version left there.
func (e cachedCopy) transfer(ctx context.Context, root, part string, i item) (*sums, error) {
	f, err := os.OpenFile(part, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, unwritable(root, err)
	}
	defer f.Close()
	s := newSums(i.object.Sum)
	at, err := io.Copy(s, io.LimitReader(f, i.object.Size))
	if err != nil {
		return nil, unwritable(root, err)
	}
	from := e.server.Read(ctx, i.object)
	defer from.Close()
	block := make([]byte, min(rangeBytes, i.object.Size-at))
	for at < i.object.Size {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		n, err := from.ReadAt(block[:min(int64(len(block)), i.object.Size-at)], at)
		if n == 0 && err != nil {
			if errors.Is(err, store.ErrChanged) {
				err = fault.TryAgain(err)
			}
			return nil, err
		}
		if _, err := f.Write(block[:n]); err != nil {
			return nil, unwritable(root, err)
		}
		s.Write(block[:n])
		at += int64(n)
	}
	err = f.Truncate(i.object.Size)
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return nil, unwritable(root, err)
	}
	return s, nil
}

// sums computes the checksums of content.
type sums struct {
	io.Writer
	want    string // expected checksum, as in bucket.Object.Sum
	content hash.Hash
	told    hash.Hash // computes the kind of checksum in want; nil: none
}

func newSums(want string) *sums {
	s := &sums{want: want, content: sha256.New()}
	s.Writer = s.content
	kind, _, _ := strings.Cut(want, ":")
	switch kind {
	case "crc32c":
		s.told = crc32.New(crc32.MakeTable(crc32.Castagnoli))
	case "md5":
		s.told = md5.New() //nolint:gosec // see above
	}
	if s.told != nil {
		s.Writer = io.MultiWriter(s.content, s.told)
	}
	return s
}

func (s *sums) sha() string { return hex.EncodeToString(s.content.Sum(nil)) }

// right reports whether the content has the checksum that the service reported.
func (s *sums) right() bool {
	kind, want, _ := strings.Cut(s.want, ":")
	switch {
	case s.told != nil:
		return hex.EncodeToString(s.told.Sum(nil)) == want
	case kind == "sha256":
		return s.sha() == want
	}
	return true
}

// sumOf returns the SHA-256 of a file in hex.
func sumOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	s := newSums("")
	_, err = io.Copy(s, f)
	return s.sha(), err
}
