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

// The clips of a batch are decoded ahead of the encoder, several at once. Each has its own goroutine, and its own ffmpeg
// process if the file needs one.
const (
	decoders   = 4
	aheadBytes = 128 << 20 // size of all pixels that wait for the encoder
)

// reader decodes one clip ahead of the encoder. It buffers a limited number of frames and stops decoding until the encoder has
// taken one.
type reader struct {
	frames chan []float32 // (H, W, 3), in order; closed at the end or after an error
	free   chan []float32 // unused buffers
	err    error          // error of the decoder; valid once frames is closed
	// readings are the readings of the media; valid once the last frame was received from frames.
	readings map[string]string
	started  chan struct{} // closed when the reader no longer waits for memory, see Source.Close
	last     []float32     // the last frame that was requested
	next     int           // number of the next frame
	cancel   context.CancelFunc
}

// read starts to decode the clip of an element once after is closed. waiting is the number of frames that it may buffer.
func read(ctx context.Context, dev kernels.Backend, e *stages.Element, waiting int, after <-chan struct{}) *reader {
	ctx, cancel := context.WithCancel(ctx)
	r := &reader{frames: make(chan []float32, waiting+1), free: make(chan []float32, waiting+1),
		started: make(chan struct{}), cancel: cancel}
	row := e.Row
	for range waiting + 1 {
		r.free <- nil
	}
	go func() {
		begin := sync.OnceFunc(func() { close(r.started) })
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

// decode opens the media of an element and sends all frames of its clip.
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
		r.frames <- pixels                                      // cannot block: frames has room for all buffers
		if row.Cut == nil || row.Cut.Short != schemas.CutLoop { // a looping clip opens its file again
			begin()
		}
	}
	return nil
}

// frame fills dst with frame i. Frames must be requested in order; the last one may be requested again.
func (r *reader) frame(dst []float32, i int) error {
	if i != r.next-1 && i != r.next {
		return fmt.Errorf("frame %d was requested after frame %d", i, r.next-1)
	}
	if i == r.next {
		pixels, more := <-r.frames
		if !more {
			if r.err == nil {
				return fmt.Errorf("frame %d was requested, the clip has %d", i, r.next)
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

// close stops the decoder and waits for it.
func (r *reader) close() {
	r.cancel()
	for range r.frames {
	}
}

// readers are the readers of a batch.
type readers struct {
	ctx     context.Context
	dev     kernels.Backend // counts the time of decoding
	batch   []*stages.Element
	names   []string // names of the clips, see clipName
	known   func(name string) bool
	opened  []*reader
	started chan struct{} // of the newest reader
}

// newReaders returns the readers for the clips of a batch on dev. A clip whose latents are known needs no reader.
func newReaders(ctx context.Context, dev kernels.Backend, batch []*stages.Element, sample bool, known func(name string) bool) *readers {
	q := &readers{ctx: ctx, dev: dev, batch: batch, known: known, opened: make([]*reader, len(batch)), started: make(chan struct{})}
	close(q.started)
	for _, e := range batch {
		q.names = append(q.names, clipName(e, sample))
	}
	return q
}

// reader returns the reader of element i. It also starts the readers of the next elements, as far as decoders are available. Memory
// for decoded pictures is limited, and a file waits until there is enough. So readers start in the order of their elements: the
// encoder never waits for a reader that itself waits for a later one.
func (q *readers) reader(i int) *reader {
	if q.opened[i] == nil {
		q.closeAll() // stop later readers; they start again
	}
	for k := i; k < min(i+decoders, len(q.batch)); k++ {
		if q.opened[k] == nil && (k == i || !slices.Contains(q.names[:k], q.names[k]) && !q.known(q.names[k])) {
			row := &q.batch[k].Row
			waiting := aheadBytes / decoders / (12 * row.Height * row.Width)
			q.opened[k] = read(q.ctx, q.dev, q.batch[k], min(max(1, waiting), row.NumFrames), q.started)
			q.started = q.opened[k].started
		}
	}
	return q.opened[i]
}

// close stops the reader of element i.
func (q *readers) close(i int) {
	if q.opened[i] != nil {
		q.opened[i].close()
		q.opened[i] = nil
	}
}

// closeAll stops all readers.
func (q *readers) closeAll() {
	for i := range q.opened {
		q.close(i)
	}
}
