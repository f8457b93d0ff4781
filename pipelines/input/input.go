// Package input reads the rows of a job: tables of prompts, of text embeddings or of latents, and media or tables that name
// them, whose clips may be cut.
package input

import (
	"context"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"latentbeam/internal/config"
	"latentbeam/internal/config/document"
	"latentbeam/internal/engine"
	"latentbeam/internal/storage/source"

	"latentbeam/internal/table/read"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// Input is the input of a job.
type Input struct {
	Contents *source.Contents // digests of its media

	cfg   *config.Config
	limit int     // on its rows; 0: none
	cut   *cutter // expands rows; nil: they stay as they are
	want  wanted  // of a table
	steps []stages.Step
}

// Reading is what decides how the rows of a job are read, apart from the files.
type Reading struct {
	Input    config.Input
	Defaults schemas.PromptRow // of the job and its models
	Naming   *schemas.Naming   // of sizes and lengths
	Steps    []stages.Step     // of the job, where others than its own; nil: its own
}

// Reading returns how the rows are read.
func (in *Input) Reading() Reading { return in.want.reading }

// As returns the input of the same job under another reading. It shares what is known of media files.
func (in *Input) As(r Reading) *Input {
	cfg := *in.cfg
	cfg.Input = r.Input
	other := newInput(&cfg, in.limit, r, in.steps, in.Contents)
	if other.cut != nil && in.cut != nil {
		other.cut.facts = in.cut.facts
	}
	return other
}

// Columns lists what the columns of the tables that were read so far are for.
func (in *Input) Columns() []read.Use { return in.want.uses.Columns() }

// New returns the input of a job, not yet opened, and starts a run: hosts that an earlier run gave up are asked again.
// limit bounds its rows; 0: no bound. defaults and steps are those of the job.
func New(cfg *config.Config, limit int, defaults schemas.PromptRow, steps []stages.Step) *Input {
	source.StartRun()
	return newInput(cfg, limit, Reading{cfg.Input, defaults, stages.NamingOf(steps), nil}, steps, &source.Contents{})
}

func newInput(cfg *config.Config, limit int, r Reading, steps []stages.Step, contents *source.Contents) *Input {
	return &Input{contents, cfg, limit, newCutter(cfg, r, steps, contents), wantedBy(cfg, r, steps), steps}
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

// SharesNames reports whether media files of the input have one name, so that their ids are paths.
func (in *Input) SharesNames() bool { return in.want.shared.Load() }

// MixedFolder names a folder of the input that stands for the media in it, although it was one clip of its frames for earlier
// releases; "": there is none.
func (in *Input) MixedFolder() string { return in.want.notes.mixed }

// Notes are what a person should know of how the input was read so far.
func (in *Input) Notes() []string { return in.want.notes.lines }

// First is the first row that can be read; nil where there is none. The error is why the input cannot be opened.
func (in *Input) First() (*schemas.PromptRow, error) {
	source, err := in.open()
	if err != nil {
		return nil, err
	}
	for e, err := range source.Rows(context.Background(), false) {
		if err != nil {
			return nil, nil //nolint:nilerr // whoever reads it all says it
		}
		if e.Failed == nil {
			return &e.Row, nil
		}
	}
	return nil, nil
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
		files, err := expand(kind, patterns)
		if err != nil {
			return nil, err
		}
		switch kind {
		case config.MediaInput, config.VideoInput:
			return openMedia(cfg, files, limit, want)
		case config.EmbeddingInput:
			return embeddings{files, videos, limit}, nil
		}
		return latents{files, limit}, nil
	}
	opts := want.options(cfg)
	if err := checkTable(patterns, opts); err != nil {
		if wrong := (*document.Error)(nil); slices.ContainsFunc(patterns, isText) && errors.As(err, &wrong) {
			return nil, wrong.WithFix("prompts stand in a file: write them into a .txt, one a line, and give its path, relative to the current directory")
		}
		return nil, err
	}
	return prompts{patterns, opts, videos, limit}, nil
}

// expand finds the files of an input. Folders of media are for those who read media.
func expand(kind string, patterns []string) ([]string, error) {
	if kind == config.MediaInput || kind == config.VideoInput {
		return read.Expand(patterns)
	}
	return read.ExpandTables(patterns)
}

// isText reports whether a pattern is no file's name but a prompt, by its form.
func isText(pattern string) bool {
	_, err := os.Stat(pattern)
	ext := filepath.Ext(pattern)
	return os.IsNotExist(err) && (len(ext) < 2 || strings.Contains(ext, " ")) && !strings.ContainsAny(pattern, `/\*?[{`) && pattern != source.Stdin
}

// checkTable checks the form of tables.
func checkTable(patterns []string, opts read.Options) error {
	p, err := read.Open(patterns, opts)
	if err != nil {
		return err
	}
	return p.Close()
}

// wanted is what a job wants of its tables.
type wanted struct {
	columns []string // of the user's own, that results depend on
	params  []string // that results depend on
	keep    []string // names and patterns of columns that need no use
	program string   // the first stage that is a program, "" where none is
	uses    *read.Uses
	notes   *notes
	shared  *atomic.Bool // files of the input have one name
	reading Reading
}

// wantedBy returns what a job with these steps wants of a table.
func wantedBy(cfg *config.Config, r Reading, steps []stages.Step) wanted {
	w := wanted{program: stages.FirstProgram(steps), params: []string{}, uses: &read.Uses{}, notes: &notes{}, shared: &atomic.Bool{}, reading: r}
	for _, s := range steps {
		for _, p := range s.Params() {
			if name, own := p.Column(); own && !slices.Contains(w.columns, name) {
				w.columns = append(w.columns, name)
			}
			w.params = append(w.params, string(p))
		}
		w.keep = append(w.keep, s.Spec.Readings...) // a column is compared with the reading of its name
	}
	w.keep = append(w.keep, cfg.Input.Carry...)
	if template, err := config.ParseName(cfg.Output.Name); err == nil { // else opening the job says it
		w.keep = append(w.keep, template.Columns()...)
	}
	return w
}

// options are those of the tables of a job.
func (w wanted) options(cfg *config.Config) read.Options {
	comma, _ := cfg.Input.Comma()
	return read.Options{Format: cfg.Input.Format, Columns: cfg.Input.Columns, Own: w.columns, Params: w.params, Uses: w.uses, Naming: w.reading.Naming, FPS: w.reading.Defaults.FPS,
		RawText: cfg.Input.TXT == config.TXTRaw, Comma: comma}
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
			localPaths(&rec.Row)
			if !s.expand(rec, yield) {
				return
			}
			if left--; left == 0 {
				return
			}
		}
	}
}

// localPaths replaces the paths of a row by those that the system takes.
func localPaths(row *schemas.PromptRow) {
	row.Media, row.Noise, row.Reference = config.LocalPath(row.Media), config.LocalPath(row.Noise), config.LocalPaths(row.Reference)
}

// expand yields the samples of one record; a bad record is one failed element.
func (s prompts) expand(rec read.Record, yield func(*stages.Element, error) bool) bool {
	if rec.Bad != nil {
		e := &stages.Element{Row: rec.Row, Wrong: rec.Bad.Given}
		e.Fail("read", fault.Row(rec.Bad))
		return yield(e, nil)
	}
	e := &stages.Element{Row: rec.Row}
	if rec.Sample != nil {
		e.Row.SampleIndex = *rec.Sample
		return yield(e, nil)
	}
	return samples(e, s.videos, yield)
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
