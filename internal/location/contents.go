package location

import (
	"context"
	"fmt"
	"os"
	"sync"
)

// maxContent bounds a media file, in bytes.
const maxContent = 1 << 40

// Contents knows the digests of media files. A file is read once as long as Contents lives, so that all who ask agree.
// The zero value is ready, and safe for concurrent use.
type Contents struct {
	known sync.Map // path -> digest string
}

// Digest is MediaDigest of a regular file, a folder of images or an address.
func (c *Contents) Digest(ctx context.Context, at string) (string, error) {
	if d, ok := c.known.Load(at); ok {
		return d.(string), nil
	}
	info, err := os.Stat(at) // before it is opened: a pipe would wait for its writer
	if err == nil && !IsAddress(at) && !info.IsDir() && (!info.Mode().IsRegular() || info.Size() > maxContent) {
		return "", fmt.Errorf("%q is not a file of at most %d GiB or a folder of images", at, maxContent>>30)
	}
	d, err := MediaDigest(ctx, at)
	if err != nil {
		return "", err
	}
	first, _ := c.known.LoadOrStore(at, d)
	return first.(string), nil
}
