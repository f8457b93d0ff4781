package vae

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"

	"latentbeam/stages"
)

// recentClips is the number of clips that an encoder caches. In tables, rows that differ only in their text are often adjacent.
const recentClips = 4

// recent caches the raw latents of the last clips. So several captions of a clip, and its copy without a caption, need one
// encoding. The zero value is ready.
type recent struct {
	mu    sync.Mutex
	names [recentClips]string
	clips [recentClips]encoded
	next  int
}

// encoded is a cached clip.
type encoded struct {
	raw      *stages.Array     // latents; must not be modified
	readings map[string]string // of its media
}

// clipName identifies everything that the latents of an element depend on within a run. A file is identified by name, because
// it does not change during a run; a file made by a stage is identified by its content.
func clipName(e *stages.Element, sample bool) string {
	row := &e.Row
	name := fmt.Sprintf("%dx%dx%d %v ", row.Width, row.Height, row.NumFrames, row.FPS)
	if row.Cut != nil {
		name += fmt.Sprintf("%+v ", *row.Cut)
	}
	if sample {
		name += fmt.Sprintf("%d/%d ", *row.Seed, row.SampleIndex)
	}
	if e.Media != nil {
		return name + fmt.Sprintf("%x", sha256.Sum256(e.Media.Data))
	}
	return name + row.Media
}

// find returns a clip from the cache. raw is nil if it is not cached.
func (r *recent) find(name string) encoded {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.names[:], name); i >= 0 {
		return r.clips[i]
	}
	return encoded{}
}

// add caches a clip and evicts the oldest one.
func (r *recent) add(name string, c encoded) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.names[r.next], r.clips[r.next] = name, c
	r.next = (r.next + 1) % recentClips
}
