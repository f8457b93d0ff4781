package hub

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"

	"latentbeam/schemas/fault"
)

// hexID matches digests.
var hexID = regexp.MustCompile(`^[0-9a-f]+$`)

// digestOf returns the hash whose sum of the content is the file's ID; nil if the ID is no known digest.
func digestOf(f RepoFile) hash.Hash {
	switch {
	case !hexID.MatchString(f.ID):
		return nil
	case len(f.ID) == 2*sha256.Size:
		return sha256.New()
	case len(f.ID) == 2*sha1.Size: // git's: over a header line and the content
		h := sha1.New()
		fmt.Fprintf(h, "blob %d\x00", f.Size)
		return h
	}
	return nil
}

// fetch downloads a blob of a repository into folder, unless it is there (with verify: and intact). It resumes a partial
// download of an earlier attempt. moved counts bytes as they arrive.
func (c *Client) fetch(ctx context.Context, folder, locks, address string, f RepoFile, verify bool, moved *atomic.Int64) error {
	blob := filepath.Join(folder, "blobs", f.ID)
	for _, dir := range []string{filepath.Dir(blob), locks} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return err
		}
	}
	lock := flock.New(filepath.Join(locks, f.ID+".lock")) // huggingface_hub uses the same lock
	if _, err := lock.TryLockContext(ctx, 100*time.Millisecond); err != nil {
		return fmt.Errorf("lock %s: %w", lock.Path(), err)
	}
	defer lock.Unlock()
	if info, err := os.Stat(blob); err == nil && info.Size() == f.Size && (!verify || intact(blob, f)) {
		moved.Add(f.Size)
		return nil // from another revision, or another process has fetched it meanwhile
	}
	part := blob + ".incomplete"
	if info, err := os.Lstat(part); err == nil && !info.Mode().IsRegular() {
		if err := os.Remove(part); err != nil { // a link could lead to somebody else's file
			return err
		}
	}
	d := download{c: c, address: address, file: f, moved: moved}
	if err := d.run(ctx, part); err != nil {
		return err
	}
	return os.Rename(part, blob)
}

// download is a running download.
type download struct {
	c       *Client
	address string
	file    RepoFile
	moved   *atomic.Int64

	out      *os.File
	sum      hash.Hash // of the bytes that are there
	at       int64     // number of bytes that are there
	furthest int64     // largest value of at so far
}

// progressBytes is how many bytes a request must add so that its failure does not count. Without it, answers that always break
// early would be retried forever.
const progressBytes = 1 << 20

// run completes the file at path and verifies it. After an error a later attempt can resume from the file.
func (d *download) run(ctx context.Context, path string) (err error) {
	if d.out, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666); err != nil {
		return err
	}
	defer func() {
		if closed := d.out.Close(); err == nil {
			err = closed
		}
	}()
	if err := d.recall(); err != nil {
		return err
	}
	for round := 1; ; round++ {
		if err := d.c.retry(ctx, func() (bool, error) { return d.fetchMore(ctx) }); err != nil {
			return fmt.Errorf("%s: %w", d.file.Path, err)
		}
		got := hex.EncodeToString(d.sum.Sum(nil))
		if got == d.file.ID {
			return d.out.Sync()
		}
		if err := d.restart(); err != nil {
			return err
		}
		if round == 2 { // the rest of an earlier attempt cannot be the reason any more
			return fault.TryAgain(fmt.Errorf("%s: the received content has the digest %s, the hub lists %s: the file was changed in transit",
				d.file.Path, got, d.file.ID))
		}
	}
}

// recall reads what an earlier attempt has downloaded.
func (d *download) recall() error {
	d.sum = digestOf(d.file)
	info, err := d.out.Stat()
	if err != nil {
		return err
	}
	if info.Size() > d.file.Size {
		return d.restart()
	}
	d.at, err = io.Copy(d.sum, d.out)
	d.moved.Add(d.at)
	d.furthest = d.at
	return err
}

// restart discards what is there.
func (d *download) restart() error {
	d.moved.Add(-d.at)
	d.at, d.sum = 0, digestOf(d.file)
	if err := d.out.Truncate(0); err != nil {
		return err
	}
	_, err := d.out.Seek(0, io.SeekStart)
	return err
}

// fetchMore requests the missing bytes and writes them.
func (d *download) fetchMore(ctx context.Context) (progress bool, err error) {
	if d.at == d.file.Size {
		return false, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := d.c.get(ctx, d.address, d.at)
	var s *status
	if errors.As(err, &s) && s.code == http.StatusRequestedRangeNotSatisfiable {
		return false, errors.Join(d.restart(), brokenConnection{s})
	}
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK && d.at > 0 { // the server does not support ranges
		if err := d.restart(); err != nil {
			return false, err
		}
	}
	if want := fmt.Sprintf("bytes %d-", d.at); resp.StatusCode == http.StatusPartialContent &&
		(len(resp.Header.Get("Content-Range")) < len(want) || resp.Header.Get("Content-Range")[:len(want)] != want) {
		return false, fmt.Errorf("asked for bytes from %d on, the server sends %q", d.at, resp.Header.Get("Content-Range"))
	}
	body := newPaced(resp.Body, d.c.idle, cancel)
	defer body.stop()
	err = d.copy(body)
	progress = d.at-d.furthest >= progressBytes
	d.furthest = max(d.furthest, d.at)
	return progress, err
}

// copy appends a body to what is there.
func (d *download) copy(body io.Reader) error {
	buffer := make([]byte, 1<<20)
	for {
		n, err := body.Read(buffer)
		if n > 0 {
			if d.at+int64(n) > d.file.Size {
				return fault.TryAgain(fmt.Errorf("the server sends more than the %d bytes that the hub lists: the file was changed in "+
					"transit", d.file.Size))
			}
			if _, err := d.out.Write(buffer[:n]); err != nil {
				return err
			}
			d.sum.Write(buffer[:n])
			d.at += int64(n)
			d.moved.Add(int64(n))
		}
		switch {
		case err == io.EOF && d.at < d.file.Size:
			return brokenConnection{fmt.Errorf("the connection ended after %d of %d bytes", d.at, d.file.Size)}
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}
