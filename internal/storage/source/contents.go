package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"latentbeam/internal/media"
)

// maxContent limits the size of a media file in bytes.
const maxContent = 1 << 40

// Contents caches the digests of media files. A file is read only once, so that all callers get the same digest. A table may
// name millions of files, so an entry takes about 80 bytes. The zero value is ready. It is safe for concurrent use.
type Contents struct {
	mu    sync.RWMutex
	index map[[16]byte]int32 // by a digest of the path
	sums  []*[sumsInBlock][sha256.Size]byte
	ends  []int32  // for each sum: index of its suffix in texts
	texts []string // suffixes, such as a version of ffmpeg
}

const sumsInBlock = 4096

// Digest is DigestAs without tone mapping.
func (c *Contents) Digest(ctx context.Context, at string) (string, error) {
	return c.DigestAs(ctx, at, "")
}

// DigestAs returns the digest of a regular file, a folder of images or an address (see MediaDigest), as used in keys with a
// rule for high dynamic range (see media.AsRead).
func (c *Contents) DigestAs(ctx context.Context, at, hdr string) (string, error) {
	digest, err := c.digest(ctx, at)
	return media.AsRead(digest, hdr), err
}

func (c *Contents) digest(ctx context.Context, at string) (string, error) {
	sum := sha256.Sum256([]byte(at))
	key := [16]byte(sum[:16])
	if d, known := c.find(key); known {
		return d, nil
	}
	info, err := os.Stat(at) // before it is opened: opening a pipe would wait for its writer
	if err == nil && !IsAddress(at) && !info.IsDir() && (!info.Mode().IsRegular() || info.Size() > maxContent) {
		return "", fmt.Errorf("%q is not a file of at most %d GiB or a folder of images", at, maxContent>>30)
	}
	d, err := MediaDigest(ctx, at)
	if errors.Is(err, fs.ErrNotExist) {
		if other := OtherForm(at); other != "" {
			return "", otherForm(at, other)
		}
		if m, inside := ParseMember(at); !IsAddress(at) && !filepath.IsAbs(at) && (!inside || !IsAddress(m.File)) {
			// The error does not contain the path: messages of unreadable rows are part of keys, which must not depend on
			// directories.
			return "", fmt.Errorf("%w; the path is relative to the directory in which the job was started", err)
		}
	}
	if err != nil {
		return "", err
	}
	return c.remember(key, d)
}

// find returns the digest for a path.
func (c *Contents) find(key [16]byte) (digest string, known bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.lookup(key)
}

// lookup is find while the lock is held.
func (c *Contents) lookup(key [16]byte) (digest string, lookup bool) {
	i, lookup := c.index[key]
	if !lookup {
		return "", false
	}
	return hex.EncodeToString(c.sums[i/sumsInBlock][i%sumsInBlock][:]) + c.texts[c.ends[i]], true
}

// remember stores a digest, SHA-256 in hex with a suffix, and returns the digest that was stored first.
func (c *Contents) remember(key [16]byte, digest string) (string, error) {
	const length = 2 * sha256.Size
	sum, err := hex.DecodeString(digest[:min(length, len(digest))])
	if err != nil || len(sum) != sha256.Size {
		return "", fmt.Errorf("%.80q is no digest", digest)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if first, known := c.lookup(key); known {
		return first, nil
	}
	if c.index == nil {
		c.index = map[[16]byte]int32{}
	}
	i := int32(len(c.ends))
	if i%sumsInBlock == 0 {
		c.sums = append(c.sums, new([sumsInBlock][sha256.Size]byte))
	}
	c.sums[i/sumsInBlock][i%sumsInBlock] = [sha256.Size]byte(sum)
	end := slices.Index(c.texts, digest[length:])
	if end < 0 {
		end, c.texts = len(c.texts), append(c.texts, strings.Clone(digest[length:]))
	}
	c.ends = append(c.ends, int32(end))
	c.index[key] = i
	return digest, nil
}
