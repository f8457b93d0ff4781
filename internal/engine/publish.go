package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"path"
	"slices"
	"sync"
	"time"

	"latentbeam/internal/results/tensors"
	"latentbeam/internal/storage/ledger"
	"latentbeam/internal/storage/store"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// Group commit: finished elements are published together, with one set of fsyncs. A group is published commitDelay after its
// first element, or earlier when it reaches commitBytes or commitRows.
const (
	commitDelay = time.Second
	commitBytes = 64 << 20
	commitRows  = 4096
)

// Publisher writes the results of one bundle into the output, in groups and from one goroutine. It writes files first, then the
// ledger records that make them count (decision 033). It is the last step of a bundle; tables are written later, from the
// ledger.
type Publisher struct {
	ctx    context.Context // of the bundle
	job    context.Context // finished work is published until this is canceled
	cancel context.CancelCauseFunc
	engine *Engine
	queue  chan []*stages.Element
	done   chan struct{}
	mu     sync.Mutex
	err    error // the first error; nothing is committed after it
}

// Publisher starts the publisher of a bundle; ctx is the bundle's context.
func (e *Engine) Publisher(ctx context.Context) *Publisher {
	c := &Publisher{engine: e, queue: make(chan []*stages.Element), done: make(chan struct{})}
	c.job = e.job(ctx)
	c.ctx, c.cancel = e.bundle(ctx)
	e.running.Go(c.loop)
	return c
}

// delay returns how long a group waits for more elements. It is 0 once the job is told to stop, because the process may be killed soon.
func (c *Publisher) delay() time.Duration {
	if c.engine.Schedule.Stopping() {
		return 0
	}
	return commitDelay
}

// Add queues the elements of a batch, or returns the error that stopped the publisher.
func (c *Publisher) Add(b *stages.Batch) error {
	defer c.engine.closePassage(b)
	select {
	case c.queue <- b.Elements:
		return c.failure()
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	}
}

// Close waits until everything queued is published.
func (c *Publisher) Close() error {
	close(c.queue)
	<-c.done
	c.cancel(nil)
	return c.failure()
}

func (c *Publisher) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// fail records the first error, which stops the publisher.
func (c *Publisher) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
}

// loop collects groups and commits them. After an error it only drains the queue, so that senders do not block.
// When the bundle is abandoned, loop still publishes its group: a fatal error of another row is no reason to
// discard finished work. When the job itself is canceled, loop discards the group.
func (c *Publisher) loop() {
	defer close(c.done)
	var group []*stages.Element
	var bytes int64
	var due <-chan time.Time
	stopped := c.engine.Schedule.Stopped().Done()
	flush := func() {
		if len(group) > 0 && c.failure() == nil {
			if err := c.publish(group); err != nil {
				c.fail(c.engine.Fail(err))
			}
		}
		clear(group)
		group, bytes, due = group[:0], 0, nil
	}
	for {
		select {
		case elements, ok := <-c.queue:
			if !ok {
				flush()
				return
			}
			if len(group) == 0 {
				due = time.After(c.delay())
			}
			group = append(group, elements...)
			for _, e := range elements {
				bytes += c.engine.Size(e)
			}
			if bytes >= commitBytes || len(group) >= commitRows {
				flush()
			}
		case <-due:
			flush()
		case <-stopped:
			stopped = nil
			flush()
		case <-c.ctx.Done():
			if c.job.Err() == nil {
				flush()
			}
			c.fail(context.Cause(c.ctx))
			return
		}
	}
}

// Size returns how many bytes the job publishes for an element.
func (e *Engine) Size(el *stages.Element) int64 {
	n := 0
	if el.Video != nil && e.Keep[stages.KindVideo] {
		n += len(el.Video.Data) + len(el.Poster)
	}
	if z, _ := el.TableLatents(); z != nil && e.Keep[stages.KindLatents] {
		n += 4 * len(z.Data)
	}
	if el.Text != nil && e.Keep[stages.KindText] {
		n += 4 * len(el.Text.Embedding.Data)
		if el.Text.Negative != nil {
			n += 4 * len(el.Text.Negative.Data)
		}
		for _, l := range el.Text.Later {
			n += 4 * len(l.Embedding.Data)
		}
	}
	return int64(n)
}

// publish writes one group: all files, then all ledger records.
func (c *Publisher) publish(group []*stages.Element) error {
	began := time.Now()
	var objects []store.Object
	records := make([]ledger.Record, len(group))
	var readings []ledger.Record
	owner := map[string]int{} // index of the element, by file name
	for i, e := range group {
		var files []store.Object
		var err error
		video := ""
		if e.Settled == nil {
			var result schemas.Result
			if files, result, records[i], err = c.engine.record(e); err != nil {
				return fmt.Errorf("publish %s: %w", e.Key, err)
			}
			if result.Video != nil {
				video = result.Video.SHA256
			}
		} else if e.Settled.Video != nil {
			video = e.Settled.Video.SHA256
		}
		more, err := c.engine.Book.records(e, video)
		if err != nil {
			return fmt.Errorf("publish %s: %w", e.Key, err)
		}
		readings = append(readings, more...)
		for _, f := range files {
			owner[f.Name] = i
		}
		objects = append(objects, files...)
	}
	if err := c.engine.Store.Put(c.job, objects...); err != nil {
		conflicts, other := store.Conflicts(err)
		if other != nil {
			return fmt.Errorf("publish: %w", other)
		}
		for _, conflict := range conflicts {
			i := owner[conflict.Name]
			if c.engine.Earlier != nil && c.engine.Earlier(group[i].Key) {
				if err := c.engine.replace(c.job, objects, conflict.Name); err != nil {
					return fmt.Errorf("publish %s: %w", group[i].Key, err)
				}
				continue
			}
			// Another writer wrote a different file with this name: the row fails, and the job goes on.
			group[i].Fail("publish", fault.Row(conflict))
			if _, _, records[i], err = c.engine.record(group[i]); err != nil {
				return fmt.Errorf("publish %s: %w", group[i].Key, err)
			}
		}
	}
	keys := make([]schemas.Key, 0, len(group))
	var done, failed, dropped, scored int64
	for _, e := range group {
		keys = append(keys, e.Key)
		switch {
		case e.Settled != nil:
			scored++
		case e.Failed.IsDropped():
			dropped++
		case e.Failed != nil:
			failed++
		default:
			done++
		}
	}
	if err := c.engine.Book.commit(c.job, readings); err != nil {
		return fmt.Errorf("publish readings: %w", err)
	}
	records = slices.DeleteFunc(records, func(r ledger.Record) bool { return r.Status == ledger.Absent })
	if err := c.engine.Ledger.Commit(c.job, records); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	c.engine.Progress.Scored.Add(scored)
	for _, e := range group {
		c.engine.Progress.blind(e)
	}
	c.engine.Steps.remove(c.job, keys...)
	c.engine.notifyPosters(group)
	c.engine.pending.release(keys...)
	c.engine.settledRows(keys)
	c.engine.Progress.Spent("publish", time.Since(began))
	c.engine.published(group, began)
	c.engine.Progress.Dropped.Add(dropped)
	return c.engine.Progress.Settle(done, failed)
}

// notifyPosters calls Published for the posters of a published group.
func (e *Engine) notifyPosters(group []*stages.Element) {
	if e.Published == nil || !e.Keep[stages.KindVideo] {
		return
	}
	for _, el := range group {
		if el.Failed == nil && el.Poster != nil {
			e.Published(el.Key, sha256.Sum256(el.Poster))
		}
	}
}

// replace replaces a file that an earlier run published. Equal keys have equal bytes, so a file that differs is damaged.
func (e *Engine) replace(ctx context.Context, objects []store.Object, name string) error {
	i := slices.IndexFunc(objects, func(o store.Object) bool { return o.Name == name })
	err := e.Store.Replace(ctx, name, func(w io.Writer) error {
		_, err := w.Write(objects[i].Data)
		return err
	})
	if err == nil && e.replaced.Add(1) == 1 {
		slog.Warn("a file was not as an earlier run wrote it: it is replaced; others are replaced silently", "file", name)
	}
	return err
}

// record returns the files and the ledger record of an element.
func (e *Engine) record(el *stages.Element) (files []store.Object, result schemas.Result, r ledger.Record, err error) {
	r = ledger.Record{Key: ledger.Key(el.Key), Status: ledger.Done}
	if el.Failed != nil {
		r.Status = ledger.Failed
		result.Failure = &schemas.FailureFacts{
			Class: el.Failed.Class.String(), Stage: el.Failed.Stage, Message: el.Failed.Message,
		}
	} else {
		result.Readings = e.readingsOf(el)
		if el.Row.Prompt != el.Given.Prompt {
			result.Prompt = el.Row.Prompt
		}
		if e.Keep[stages.KindVideo] {
			var err error
			if files, result.Video, err = e.files(el); err != nil {
				el.Fail("encode_video", fault.Row(err))
				return e.record(el)
			}
		}
		if e.Keep[stages.KindLatents] {
			z, space := el.TableLatents()
			result.LatentsShape, result.LatentSpace = z.Shape, space
			result.LatentsSHA256 = tensors.Put(&r, schemas.BlobLatents, z)
			if result.LatentScale = el.LatentScale; space == stages.RawSpace {
				result.LatentScale = 1
			}
		}
		if e.Keep[stages.KindText] {
			result.TextShape = el.Text.Embedding.Shape
			result.TextSHA256 = tensors.Put(&r, schemas.BlobText, el.Text.Embedding)
			if n := el.Text.Negative; n != nil {
				result.NegativeTextShape = n.Shape
				tensors.Put(&r, schemas.BlobNegativeText, n)
			}
			if len(el.Text.Later) > 0 {
				later := &stages.Array{}
				for _, l := range el.Text.Later {
					result.LaterTexts = append(result.LaterTexts, schemas.LaterText{Clip: l.Clip, Tokens: l.Embedding.Shape[0]})
					later.Data = append(later.Data, l.Embedding.Data...)
				}
				tensors.Put(&r, schemas.BlobLaterText, later)
			}
		}
	}
	r.Row, err = json.Marshal(result)
	return files, result, r, err
}

// readingsOf returns the readings that belong to an element's result: all except readings that the Book stores.
func (e *Engine) readingsOf(el *stages.Element) map[string]string {
	var mine stages.Element
	for _, s := range e.Schedule.Steps {
		if !s.MeasuresOnly {
			for _, m := range s.Capabilities().Measures {
				if !el.Lacks(m) {
					mine.AddReadings(m, el.Looked[m.ID()])
				}
			}
		}
	}
	if mine.Readings = el.Readings; mine.Looked == nil {
		return el.Readings
	}
	return mine.AllReadings()
}

// files marks the video and its poster and names them by key. The first two digits of the key are the directory.
func (e *Engine) files(el *stages.Element) ([]store.Object, *schemas.VideoFile, error) {
	if e.Rules.Input == stages.KindVideo {
		return e.filesOfInput(el)
	}
	key, data := el.Key.String(), el.Video.Data
	v := &schemas.VideoFile{Path: path.Join("videos", key[:2], key+el.Video.Ext), Codec: el.Video.Codec}
	if e.Marks != nil && el.Video.Markable {
		var err error
		v.Marks, v.UnmarkedSHA256 = e.Marks.ID(), sumOf(data)
		if data, err = e.Marks.Mark(data, el.Video.Ext, el.Key, &el.Row); err != nil {
			return nil, nil, err
		}
		if el.Poster != nil {
			if el.Poster, err = e.Marks.Mark(el.Poster, ".jpg", el.Key, &el.Row); err != nil {
				return nil, nil, err
			}
		}
	}
	v.Bytes, v.SHA256 = int64(len(data)), sumOf(data)
	if e, r := el.Video, &el.Row; e.Width != r.Width || e.Height != r.Height || e.Frames != r.NumFrames {
		v.Width, v.Height, v.NumFrames = e.Width, e.Height, e.Frames
	}
	objects := []store.Object{{Name: v.Path, Data: data}}
	if el.Poster != nil {
		v.Poster, v.PosterBytes = path.Join("posters", key[:2], key+".jpg"), int64(len(el.Poster))
		objects = append(objects, store.Object{Name: v.Poster, Data: el.Poster})
	}
	return objects, v, nil
}

// filesOfInput returns the files of an input video: its poster only.
func (e *Engine) filesOfInput(el *stages.Element) ([]store.Object, *schemas.VideoFile, error) {
	in := el.Video
	v := &schemas.VideoFile{Source: el.Row.Media, Codec: in.Codec, Bytes: int64(len(in.Data)), SHA256: sumOf(in.Data)}
	if in.Width != el.Row.Width || in.Height != el.Row.Height || in.Frames != el.Row.NumFrames {
		v.Width, v.Height, v.NumFrames = in.Width, in.Height, in.Frames
	}
	key := el.Key.String()
	v.Poster, v.PosterBytes = path.Join("posters", key[:2], key+".jpg"), int64(len(el.Poster))
	return []store.Object{{Name: v.Poster, Data: el.Poster}}, v, nil
}

// sumOf is the SHA-256 of data, in hex.
func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
