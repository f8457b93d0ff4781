// Package input reads the rows of a job: tables of prompts, of text embeddings or of latents, and media or tables that name
// them, whose clips may be cut.
package input

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"slices"

	"latentbeam/internal/config"
	"latentbeam/internal/config/document"
	"latentbeam/internal/engine"
	"latentbeam/internal/location"
	"latentbeam/internal/table/read"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// Input is the input of a job.
type Input struct {
	cfg   *config.Config
	limit int     // on its rows; 0: none
	cut   *cutter // expands rows; nil: they stay as they are
	want  wanted  // of a table
}

// New returns the input of a job, not yet opened. limit stops after so many rows of it; 0: never. defaults and steps are
// those of the job, contents knows the digests of media.
func New(cfg *config.Config, limit int, defaults schemas.PromptRow, steps []stages.Step, contents *location.Contents) *Input {
	return &Input{cfg, limit, newCutter(cfg, defaults, steps, contents), wantedBy(steps)}
}

// Open opens the input, which has rows unless it may be empty, and checks its form.
func (in *Input) Open(mayBeEmpty bool) (engine.RowSource, error) {
	source, err := in.open()
	if err != nil || mayBeEmpty {
		return source, err
	}
	for range source.Rows(context.Background(), false) {
		return source, nil // one that cannot be read is left to those who read all of it
	}
	kind, _ := in.cfg.Input.Source()
	return nil, in.cfg.Errorf("input."+kind, "the input has no rows").
		WithFix("name a file with rows; --allow-empty makes an output without rows")
}

// First is the first row that can be read; nil where there is none.
func (in *Input) First() *schemas.PromptRow {
	source, err := in.open()
	if err != nil {
		return nil
	}
	for e, err := range source.Rows(context.Background(), false) {
		if err != nil {
			return nil
		}
		if e.Failed == nil {
			return &e.Row
		}
	}
	return nil
}

func (in *Input) open() (engine.RowSource, error) {
	source, err := sourceOf(in.cfg, in.limit, in.want)
	var problem *document.Error
	if errors.As(err, &problem) && problem.Problems[0].Pos.Line == 0 { // about a file: say who named it
		p := problem.Problems[0]
		kind, _ := in.cfg.Input.Source()
		return nil, in.cfg.Errorf("input."+kind, "%v: %s", p.Pos, p.Message).WithFix("%s", p.Fix)
	}
	if err != nil {
		return nil, err
	}
	return in.cut.of(source), nil
}

func sourceOf(cfg *config.Config, limit int, want wanted) (engine.RowSource, error) {
	kind, patterns := cfg.Input.Source()
	videos := cfg.Defaults.NumVideosPerPrompt
	if kind != config.PromptInput {
		files, err := read.Expand(patterns)
		if err != nil {
			return nil, err
		}
		switch kind {
		case config.MediaInput:
			return openMedia(cfg, files, limit, want)
		case config.EmbeddingInput:
			return embeddings{files, videos, limit}, nil
		}
		return latents{files, limit}, nil
	}
	opts := read.Options{Format: cfg.Input.Format, Columns: cfg.Input.Columns, Own: want.columns}
	if err := checkTable(patterns, opts, want); err != nil {
		return nil, err
	}
	return prompts{patterns, opts, videos, limit}, nil
}

// checkTable checks the form of tables, and tells of columns whose names look like slips.
func checkTable(patterns []string, opts read.Options, want wanted) error {
	p, err := read.Open(patterns, opts)
	if err != nil {
		return err
	}
	for _, s := range p.Slips() {
		about := []any{"file", s.File, "column", s.Column, "did you mean", s.Field}
		if want.program != "" {
			about = append(about, "or add it to", "params of "+want.program)
		}
		slog.Warn("a column is no parameter, it is carried along as it is", about...)
	}
	return p.Close()
}

// wanted is what the stages of a job want of its table.
type wanted struct {
	columns []string // of the user's own, that results depend on
	program string   // the first stage that is a program, "" where none is
}

// wantedBy returns what the steps want of a table.
func wantedBy(steps []stages.Step) wanted {
	w := wanted{program: stages.FirstProgram(steps)}
	for _, s := range steps {
		for _, p := range s.Params() {
			if name, own := p.Column(); own && !slices.Contains(w.columns, name) {
				w.columns = append(w.columns, name)
			}
		}
	}
	return w
}

// prompts reads prompt tables, one element for each video of a row.
type prompts struct {
	patterns []string
	opts     read.Options
	videos   int // num_videos_per_prompt of rows that do not say it; 0: the job does not say it either
	limit    int // on rows, whatever videos they ask for; 0: none
}

// Rows yields the elements of every row in turn.
func (s prompts) Rows(_ context.Context, _ bool) iter.Seq2[*stages.Element, error] {
	return func(yield func(*stages.Element, error) bool) {
		p, err := read.Open(s.patterns, s.opts)
		if err != nil {
			yield(nil, err)
			return
		}
		defer p.Close()
		left := s.limit
		for rec, err := range p.All() {
			if err != nil {
				yield(nil, err)
				return
			}
			if !s.expand(rec, yield) {
				return
			}
			if left--; left == 0 {
				return
			}
		}
	}
}

// expand yields the samples of one record; a bad record is one failed element.
func (s prompts) expand(rec read.Record, yield func(*stages.Element, error) bool) bool {
	if rec.Bad != nil {
		e := &stages.Element{Row: rec.Row, Wrong: rec.Bad.Given}
		e.Fail("read", fault.Row(rec.Bad))
		return yield(e, nil)
	}
	return samples(&stages.Element{Row: rec.Row}, s.videos, yield)
}

// samples yields an element for each video that e's row asks for, or else the job. Nobody changes tensors,
// so they share them.
func samples(e *stages.Element, videos int, yield func(*stages.Element, error) bool) bool {
	if e.Row.NumVideosPerPrompt == 0 {
		e.Row.NumVideosPerPrompt = videos
	}
	if e.Row.NumVideosPerPrompt <= 1 {
		e.Row.SampleIndex = 0
		return yield(e, nil)
	}
	for i := range e.Row.NumVideosPerPrompt {
		one := *e
		one.Row.SampleIndex = i
		if !yield(&one, nil) {
			return false
		}
	}
	return true
}
