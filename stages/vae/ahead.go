package vae

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// The clips of a batch are decoded in front of the encoder, several at once: each by a goroutine, and by an ffmpeg of its own
// where the file needs one.
const (
	decoders   = 4
	aheadBytes = 128 << 20 // of pixels that wait for the encoder, of all clips together
)

// reader decodes one clip in front of its encoder. It has a number of frames that wait, and decodes no more until the encoder
// has taken one of them.
type reader struct {
	frames chan []float32 // (H, W, 3) in order; closed at the end or an error
	free   chan []float32 // buffers without a frame
	err    error          // of the decoder, once frames is closed
	// readings are those of the media, once the last frame was taken from frames.
	readings map[string]string
	begun    chan struct{} // closed when nothing is left that it may have to wait for, see Source.Close
	last     []float32     // the frame that was asked for last
	next     int           // number of the frame behind it
	cancel   context.CancelFunc
}

// read begins to decode the clip of an element, once after is closed. waiting is how many frames may wait.
func read(ctx context.Context, dev kernels.Backend, e *stages.Element, waiting int, after <-chan struct{}) *reader {
	ctx, cancel := context.WithCancel(ctx)
	r := &reader{frames: make(chan []float32, waiting+1), free: make(chan []float32, waiting+1),
		begun: make(chan struct{}), cancel: cancel}
	row := e.Row
	for range waiting + 1 {
		r.free <- nil
	}
	go func() {
		begin := sync.OnceFunc(func() { close(r.begun) })
		defer close(r.frames)
		defer begin()
		select {
		case <-after:
			r.err = r.decode(ctx, dev, e, &row, begin)
		case <-ctx.Done():
			r.err = context.Cause(ctx)
		}
	}()
	return r
}

// decode opens the media of an element and gives all frames of its clip.
func (r *reader) decode(ctx context.Context, dev kernels.Backend, e *stages.Element, row *schemas.PromptRow, begin func()) error {
	frames, err := OpenFootage(ctx, dev, e.Media, row)
	if err != nil {
		return err
	}
	defer frames.Close()
	for i := range row.NumFrames {
		var pixels []float32
		select {
		case pixels = <-r.free:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if pixels == nil {
			pixels = make([]float32, row.Height*row.Width*3)
		}
		if err := frames.At(pixels, i); err != nil {
			return err
		}
		if i == row.NumFrames-1 {
			r.readings = frames.Readings()
		}
		r.frames <- pixels                                      // there is room for all buffers
		if row.Cut == nil || row.Cut.Short != schemas.CutLoop { // one that loops opens its file again
			begin()
		}
	}
	return nil
}

// at fills dst with frame i. Frames are asked for in order; the last one may be asked for again.
func (r *reader) at(dst []float32, i int) error {
	if i != r.next-1 && i != r.next {
		return fmt.Errorf("frame %d was asked for after frame %d", i, r.next-1)
	}
	if i == r.next {
		pixels, more := <-r.frames
		if !more {
			if r.err == nil {
				return fmt.Errorf("frame %d was asked for, the clip has %d", i, r.next)
			}
			return r.err
		}
		if r.last != nil {
			r.free <- r.last
		}
		r.last, r.next = pixels, i+1
	}
	copy(dst, r.last)
	return nil
}

// close ends the decoding and waits for the decoder.
func (r *reader) close() {
	r.cancel()
	for range r.frames {
	}
}

// readers are those of a batch.
type readers struct {
	ctx    context.Context
	dev    kernels.Backend // which counts what decoding takes
	batch  []*stages.Element
	names  []string // of the clips
	known  func(name string) bool
	opened []*reader
	begun  chan struct{} // of the last reader
}

// newReaders is ready for the clips of a batch on dev. Those whose latents are known need no reader.
func newReaders(ctx context.Context, dev kernels.Backend, batch []*stages.Element, sample bool, known func(name string) bool) *readers {
	q := &readers{ctx: ctx, dev: dev, batch: batch, known: known, opened: make([]*reader, len(batch)), begun: make(chan struct{})}
	close(q.begun)
	for _, e := range batch {
		q.names = append(q.names, clipName(e, sample))
	}
	return q
}

// of returns the reader of element i. It begins those of the next elements, as long as there are decoders. Memory for
// decoded pictures is bounded, and a file waits for it. So readers begin in the order of their elements: the encoder never
// waits for a reader that waits for a later one.
func (q *readers) of(i int) *reader {
	if q.opened[i] == nil {
		q.closeAll() // later ones, which begin again
	}
	for k := i; k < min(i+decoders, len(q.batch)); k++ {
		if q.opened[k] == nil && (k == i || !slices.Contains(q.names[:k], q.names[k]) && !q.known(q.names[k])) {
			row := &q.batch[k].Row
			waiting := aheadBytes / decoders / (12 * row.Height * row.Width)
			q.opened[k] = read(q.ctx, q.dev, q.batch[k], min(max(1, waiting), row.NumFrames), q.begun)
			q.begun = q.opened[k].begun
		}
	}
	return q.opened[i]
}

// close ends the reading of element i.
func (q *readers) close(i int) {
	if q.opened[i] != nil {
		q.opened[i].close()
		q.opened[i] = nil
	}
}

// closeAll ends the reading of all elements.
func (q *readers) closeAll() {
	for i := range q.opened {
		q.close(i)
	}
}
