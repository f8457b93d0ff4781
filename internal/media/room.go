package media

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"golang.org/x/sync/semaphore"

	"latentbeam/internal/system"
)

// room limits the memory for decoded pictures. It is derived from the limits of the process.
type room struct {
	bytes int64 // for all pictures at the same time; a single larger picture may use it alone
	most  int64 // for one picture
	free  *semaphore.Weighted
}

func newRoom(bytes, most int64) *room { return &room{bytes, most, semaphore.NewWeighted(bytes)} }

// pictures is the room of this process: one fifth of the available memory, which batches do not use (devices.NewCPU). A
// variable for tests.
var pictures = sync.OnceValue(func() *room {
	free := system.AvailableMemory()
	return newRoom(max(1, free/5), free/2)
})

// collectAt is the size from which a picture runs the garbage collector first, to free earlier pictures.
const collectAt = 64 << 20

// acquire waits until there is room for bytes. A holder must release its room before it acquires more.
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
	return fmt.Errorf("it needs %d MB of memory when decoded, and one image may use %d MB: make it smaller, or give the process more "+
		"memory (latentbeam doctor shows the limits)", bytes>>20, r.most>>20)
}

// Fits returns an error if a file's content of this size must not be in memory completely.
func Fits(bytes int64) error { return pictures().fits(bytes) }

// acquireRoom acquires the room for frames with perPixel bytes a pixel.
func (i SourceInfo) acquireRoom(ctx context.Context, perPixel int) (release func(), err error) {
	release, err = pictures().acquire(ctx, int64(i.Width*i.Height)*int64(perPixel))
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("a frame of %dx%d: %w", i.Width, i.Height, err)
	}
	return release, err
}

// Bytes per pixel.
const (
	rgbBytes    = 3  // as returned by a Source
	planesBytes = 3  // of a y4m, before conversion
	pipedBytes  = 24 // inside ffmpeg: sixteen frames
	imageBytes  = 15 // of the most demanding image, a progressive jpeg: coefficients of four bytes, and the planes
)
