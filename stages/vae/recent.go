package vae

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"

	"latentbeam/stages"
)

// recentClips is how many clips an encoder remembers. Rows that differ in their text alone follow each other in tables.
const recentClips = 4

// recent remembers the raw latents of the last clips, so that the captions of a clip, and its twin without a caption, cost one
// encoding. The zero value is ready.
type recent struct {
	mu    sync.Mutex
	names [recentClips]string
	clips [recentClips]encoded
	next  int
}

// encoded is what an encoder remembers of a clip.
type encoded struct {
	raw      *stages.Array     // latents, which nobody changes
	readings map[string]string // of its media
}

// clipName names all that the latents of an element depend on within a run. A file is the same as long as the run lasts;
// what a stage made goes by content.
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

// find returns a clip; without latents where it is not remembered.
func (r *recent) find(name string) encoded {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.names[:], name); i >= 0 {
		return r.clips[i]
	}
	return encoded{}
}

// add remembers a clip in place of the oldest.
func (r *recent) add(name string, c encoded) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.names[r.next], r.clips[r.next] = name, c
	r.next = (r.next + 1) % recentClips
}
