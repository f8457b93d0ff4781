package input

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync"

	"latentbeam/internal/config"
	"latentbeam/internal/engine"
	"latentbeam/internal/media"
	"latentbeam/internal/storage/source"
	"latentbeam/internal/table/cut"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
	"latentbeam/stages/rng"
)

// cutter replaces each row of a source with one row per clip of its media, before the rows get keys. The clips depend only
// on the row, the job and the header of the media file, so that plan, run, report, shards and workers get the same rows.
type cutter struct {
	rule     *cut.Rule
	null     bool              // adds a second row without caption for each clip
	defaults schemas.PromptRow // defaults of the job and its models
	naming   *schemas.Naming
	seed     int64 // seed of the job
	most     int   // maximal frames of a clip without a fixed length, if the row has none
	encodes  bool  // a stage reads the media, so their digests are needed
	contents *source.Contents
	facts    *sync.Map // probed -> media.StreamInfo
}

// probed is the key under which the result of probing a file is cached.
type probed struct {
	path string
	fps  float64
}

// newCutter returns the cutter of a job; nil: the job does not cut its media.
func newCutter(cfg *config.Config, r Reading, steps []stages.Step, contents *source.Contents) *cutter {
	if !cfg.Input.Cuts() {
		return nil
	}
	c := &cutter{facts: &sync.Map{}, rule: cut.New(cfg.Input), most: int(cfg.Defaults.NumFrames), null: cfg.Input.NullCaption,
		defaults: r.Defaults, naming: r.Naming, contents: contents,
		encodes: slices.ContainsFunc(steps, func(s stages.Step) bool { return slices.Contains(s.Params(), stages.ParamMedia) })}
	if cfg.Defaults.Seed != nil {
		c.seed = *cfg.Defaults.Seed
	}
	return c
}

// wrap returns a source whose rows are the clips of s. It returns s if c is nil.
func (c *cutter) wrap(s engine.RowSource) engine.RowSource {
	if c == nil {
		return s
	}
	return expanded{s, c}
}

// expanded is a source whose rows are the clips of another source's media.
type expanded struct {
	engine.RowSource
	*cutter
}

// expansion holds the clips of one row. An error ends the reading of the input.
type expansion struct {
	rows []*stages.Element
	err  error
}

// Rows yields the clips in the order of their media. It probes several files concurrently.
func (x expanded) Rows(ctx context.Context, tensors bool) iter.Seq2[*stages.Element, error] {
	return func(yield func(*stages.Element, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		queue := make(chan chan expansion, 2*runtime.GOMAXPROCS(0))
		var reading sync.WaitGroup
		defer reading.Wait()
		defer cancel()
		reading.Go(func() {
			defer close(queue)
			for e, err := range x.RowSource.Rows(ctx, tensors) {
				slot := make(chan expansion, 1)
				select {
				case queue <- slot:
				case <-ctx.Done():
					return
				}
				if err != nil {
					slot <- expansion{err: err}
					return
				}
				go func() { slot <- x.expand(ctx, e) }()
			}
		})
		for slot := range queue {
			found := <-slot
			if err := ctx.Err(); found.err == nil && err != nil {
				found.err = context.Cause(ctx)
			}
			if found.err != nil {
				yield(nil, found.err)
				return
			}
			for _, e := range found.rows {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// expand returns the clips of a row, at least one. If a row cannot be cut, expand returns it as a failed row.
func (c *cutter) expand(ctx context.Context, e *stages.Element) expansion {
	if e.Failed != nil {
		return expansion{rows: []*stages.Element{e}}
	}
	fail := func(err error) expansion {
		failure, err := source.RowFailure(err)
		if err != nil {
			return expansion{err: err}
		}
		e.Fail("read", fmt.Errorf("media: %w", failure))
		return expansion{rows: []*stages.Element{e}}
	}
	row, err := e.Row.WithDefaults(c.defaults).Sized(c.naming)
	if err != nil {
		return fail(err)
	}
	facts, err := c.probe(ctx, probed{row.Media, row.FPS})
	if err != nil {
		return fail(err)
	}
	if c.encodes { // compute the digest now, because this code runs concurrently; it is cached
		if _, err := c.contents.Digest(ctx, row.Media); err != nil {
			return fail(err)
		}
	}
	seen := cut.Media{Width: facts.Width, Height: facts.Height, Frames: facts.Frames, Still: facts.Still}
	found := c.rule.Cut(seen, cut.Want{Height: row.Height, Width: row.Width, NumFrames: row.NumFrames,
		Most: cmp.Or(e.Row.NumFrames, c.most),
		Draw: func(label string, n int) (int, error) { return c.draw(ctx, &row, label, n) }})
	var out expansion
	for _, clip := range found {
		if cut := &clip.Cut; cut.Start > 0 {
			if cut.Seek = facts.Seek(cut.Start); cut.Seek != 0 {
				cut.Origin = facts.Origin
			}
		}
		out.rows = append(out.rows, c.row(e, clip))
		last := out.rows[len(out.rows)-1]
		last.Row.MediaSeconds = facts.Seconds(clip.Cut, clip.Width*clip.Height)
		if c.null && last.Failed == nil {
			empty := *last
			empty.Row.ID += schemas.NullMark
			empty.Row.Prompt = ""
			out.rows = append(out.rows, &empty)
		}
	}
	return out
}

// row returns the row of one clip of source.
func (c *cutter) row(source *stages.Element, clip cut.Clip) *stages.Element {
	e := *source
	e.Row.ID += clip.Suffix
	switch {
	case clip.Failed != nil:
		e.Fail("read", fault.Row(fmt.Errorf("media: %w", clip.Failed)))
		return &e
	case clip.Dropped != "":
		e.Failed = &stages.Failure{Stage: "read", Class: fault.ClassDropped, Message: "media: " + clip.Dropped}
		return &e
	}
	e.Row.Width, e.Row.Height, e.Row.NumFrames = clip.Width, clip.Height, clip.NumFrames
	e.Row.Resolution, e.Row.AspectRatio = "", ""
	e.Row.Cut = &clip.Cut
	return &e
}

// probe reads the stream information of a file, once per file and fps.
func (c *cutter) probe(ctx context.Context, p probed) (media.StreamInfo, error) {
	if f, known := c.facts.Load(p); known {
		return f.(media.StreamInfo), nil
	}
	file, err := source.Media(ctx, p.path)
	if err != nil {
		return media.StreamInfo{}, err
	}
	defer file.Release()
	f, err := media.Probe(ctx, file.Path, p.fps)
	if err != nil {
		return f, file.Named(err)
	}
	first, _ := c.facts.LoadOrStore(p, f)
	return first.(media.StreamInfo), nil
}

// draw returns a pseudo-random number from 0 to n, derived from the row's seed, the content of its media and the label.
func (c *cutter) draw(ctx context.Context, row *schemas.PromptRow, label string, n int) (int, error) {
	if n < 1 {
		return 0, nil
	}
	digest, err := c.contents.Digest(ctx, row.Media)
	if err != nil {
		return 0, err
	}
	digest, _, _ = strings.Cut(digest, " ") // without the name of the decoder
	seed := rng.SeedFor(c.seed, row.Prompt)
	if row.Seed != nil {
		seed = *row.Seed
	}
	b := append([]byte("latentbeam cut 1\n"), binary.BigEndian.AppendUint64(nil, uint64(seed))...)
	sum := sha256.Sum256(append(b, digest+"\n"+label...))
	return int(binary.BigEndian.Uint64(sum[:8]) % uint64(n+1)), nil
}
