package media

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"golang.org/x/sync/semaphore"

	"latentbeam/internal/system"
)

// room is the memory that decoded pictures may take. What bounds the process bounds it: see limits.
type room struct {
	bytes int64 // of all pictures at the same time, but for one that is larger, which is alone then
	most  int64 // of one
	free  *semaphore.Weighted
}

func newRoom(bytes, most int64) *room { return &room{bytes, most, semaphore.NewWeighted(bytes)} }

// pictures is the room of this process: a fifth of the memory that there is, which batches leave (devices.NewCPU). A
// variable for tests.
var pictures = sync.OnceValue(func() *room {
	free := system.AvailableMemory()
	return newRoom(max(1, free/5), free/2)
})

// collectAt is how large pictures are before which the collector removes what earlier ones left.
const collectAt = 64 << 20

// acquire waits until there is room for so many bytes. Who has some asks for no more before it is given back.
func (r *room) acquire(ctx context.Context, bytes int64) (release func(), err error) {
	if err := r.fits(bytes); err != nil {
		return nil, err
	}
	n := min(bytes, r.bytes)
	if err := r.free.Acquire(ctx, n); err != nil {
		return nil, err
	}
	if bytes >= collectAt {
		runtime.GC()
	}
	return sync.OnceFunc(func() { r.free.Release(n) }), nil
}

func (r *room) fits(bytes int64) error {
	if bytes <= r.most {
		return nil
	}
	return fmt.Errorf("it takes %d MB of memory decoded, and %d MB are there for one: make it smaller, or give the process more "+
		"memory (latentbeam doctor says what bounds it)", bytes>>20, r.most>>20)
}

// Fits says whether something that a file holds may be in memory as a whole, so many bytes.
func Fits(bytes int64) error { return pictures().fits(bytes) }

// acquireRoom takes the room for frames of so many bytes a pixel.
func (i SourceInfo) acquireRoom(ctx context.Context, perPixel int) (release func(), err error) {
	release, err = pictures().acquire(ctx, int64(i.Width*i.Height)*int64(perPixel))
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("a frame of %dx%d: %w", i.Width, i.Height, err)
	}
	return release, err
}

// Bytes of a pixel.
const (
	rgbBytes    = 3  // as a Source gives it
	planesBytes = 3  // of a y4m, before that
	pipedBytes  = 24 // in ffmpeg: sixteen frames
	imageBytes  = 15 // of the hungriest image, a progressive jpeg: coefficients of four bytes, and the planes
)
