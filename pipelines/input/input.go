// Package input reads the rows of a job: from tables of prompts, text embeddings or latents, and from media files or tables that
// name them. It can cut media into clips.
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
	Contents *source.Contents // caches digests of its media

	cfg   *config.Config
	limit int     // maximal rows; 0: no limit
	cut   *cutter // cuts media into clips; nil: does not
	want  needs   // what the job needs from its tables
	steps []stages.Step
}

// Reading holds the settings that decide how rows are read from the files.
type Reading struct {
	Input    config.Input
	Defaults schemas.PromptRow // defaults of the job and its models
	Naming   *schemas.Naming   // names of sizes and lengths
	Steps    []stages.Step     // steps of another job, if the rows are read for one; nil: steps of this job
}

// Reading returns the settings by which the rows are read.
func (in *Input) Reading() Reading { return in.want.reading }

// As returns the input of the same job with other settings. Both share the cached facts of media files.
func (in *Input) As(r Reading) *Input {
	cfg := *in.cfg
	cfg.Input = r.Input
	other := newInput(&cfg, in.limit, r, in.steps, in.Contents)
	if other.cut != nil && in.cut != nil {
		other.cut.facts = in.cut.facts
	}
	return other
}

// Columns returns how the job uses each column of the tables read so far.
func (in *Input) Columns() []read.Use { return in.want.uses.Columns() }

// New returns the input of a job without opening it. It also starts a new run of package source, which then tries hosts again that
// did not answer an earlier run. limit is the maximal number of rows; 0: no limit.
func New(cfg *config.Config, limit int, defaults schemas.PromptRow, steps []stages.Step) *Input {
	source.StartRun()
	return newInput(cfg, limit, Reading{cfg.Input, defaults, stages.NamingOf(steps), nil}, steps, &source.Contents{})
}

func newInput(cfg *config.Config, limit int, r Reading, steps []stages.Step, contents *source.Contents) *Input {
	return &Input{contents, cfg, limit, newCutter(cfg, r, steps, contents), needsOf(cfg, r, steps), steps}
}

// Open opens the input and checks its format. An input without rows is an error unless mayBeEmpty.
func (in *Input) Open(mayBeEmpty bool) (engine.RowSource, error) {
	source, err := in.open()
	if err != nil || mayBeEmpty {
		return source, err
	}
	for range source.Rows(context.Background(), false) {
		return source, nil // an error of the first row is reported when all rows are read
	}
	kind, _ := in.cfg.Input.Source()
	return nil, in.cfg.Errorf("input."+kind, "the input has no rows").
		WithFix("name a file with rows; --allow-empty makes an output without rows")
}

// SharesNames reports whether several media files of the input have the same name, so that their ids are paths.
func (in *Input) SharesNames() bool { return in.want.shared.Load() }

// MixedFolder returns a folder of the input that is now read as separate media files, but was one clip of frames in earlier
// releases; "": none.
func (in *Input) MixedFolder() string { return in.want.notes.mixed }

// Notes returns messages for the user about how the input was read so far.
func (in *Input) Notes() []string { return in.want.notes.lines }

// First returns the first valid row; nil: there is none. It returns an error only if the input cannot be opened.
func (in *Input) First() (*schemas.PromptRow, error) {
	source, err := in.open()
	if err != nil {
		return nil, err
	}
	for e, err := range source.Rows(context.Background(), false) {
		if err != nil {
			return nil, nil //nolint:nilerr // reported when all rows are read
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
	if errors.As(err, &problem) && problem.Problems[0].Pos.Line == 0 { // an error of a whole file: add the option that names it
		p := problem.Problems[0]
		kind, _ := in.cfg.Input.Source()
		return nil, in.cfg.Errorf("input."+kind, "%v: %s", p.Pos, p.Message).WithFix("%s", p.Fix)
	}
	if err != nil {
		return nil, err
	}
	return in.cut.wrap(source), nil
}

// sourceOf returns the source of the input's rows before media are cut.
func sourceOf(cfg *config.Config, limit int, want needs) (engine.RowSource, error) {
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
			return nil, wrong.WithFix("prompts are read from a file: write them into a .txt, one per line, and give its path, relative to the current directory")
		}
		return nil, err
	}
	return prompts{patterns, opts, videos, limit}, nil
}

// expand finds the files that match the patterns of an input. Media folders stay folders: openMedia reads them.
func expand(kind string, patterns []string) ([]string, error) {
	if kind == config.MediaInput || kind == config.VideoInput {
		return read.Expand(patterns)
	}
	return read.ExpandTables(patterns)
}

// isText reports whether a pattern looks like a prompt and not like a file name.
func isText(pattern string) bool {
	_, err := os.Stat(pattern)
	ext := filepath.Ext(pattern)
	return os.IsNotExist(err) && (len(ext) < 2 || strings.Contains(ext, " ")) && !strings.ContainsAny(pattern, `/\*?[{`) && pattern != source.Stdin
}

// checkTable checks the format of tables.
func checkTable(patterns []string, opts read.Options) error {
	p, err := read.Open(patterns, opts)
	if err != nil {
		return err
	}
	return p.Close()
}

// needs describes what a job needs from its tables, and collects what was found in them.
type needs struct {
	columns []string // columns defined by the user that results depend on
	params  []string // parameters that results depend on
	carried []string // names and patterns of columns that cause no warning when the job does not use them
	program string   // first stage that is a program; "": none
	uses    *read.Uses
	notes   *notes
	shared  *atomic.Bool // several files of the input have the same name
	reading Reading
}

// needsOf returns what a job with these steps needs from its tables.
func needsOf(cfg *config.Config, r Reading, steps []stages.Step) needs {
	w := needs{program: stages.FirstProgram(steps), params: []string{}, uses: &read.Uses{}, notes: &notes{}, shared: &atomic.Bool{}, reading: r}
	for _, s := range steps {
		for _, p := range s.Params() {
			if name, own := p.Column(); own && !slices.Contains(w.columns, name) {
				w.columns = append(w.columns, name)
			}
			w.params = append(w.params, string(p))
		}
		w.carried = append(w.carried, s.Spec.Readings...) // columns with names of readings are compared with the readings
	}
	w.carried = append(w.carried, cfg.Input.Carry...)
	if template, err := config.ParseName(cfg.Output.Name); err == nil { // opening the job reports the error
		w.carried = append(w.carried, template.Columns()...)
	}
	return w
}

// options returns the options with which the tables are read.
func (w needs) options(cfg *config.Config) read.Options {
	comma, _ := cfg.Input.Comma()
	return read.Options{Format: cfg.Input.Format, Columns: cfg.Input.Columns, Own: w.columns, Params: w.params, Uses: w.uses, Naming: w.reading.Naming, FPS: w.reading.Defaults.FPS,
		RawText: cfg.Input.TXT == config.TXTRaw, Comma: comma}
}

// prompts reads prompt tables. It yields one element for each video of a row.
type prompts struct {
	patterns []string
	opts     read.Options
	videos   int // num_videos_per_prompt of rows without one; 0: the job has none either
	limit    int // maximal rows of the table, not videos; 0: no limit
}

// Rows yields the elements of all rows in order.
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

// localPaths converts the paths of a row to the form of this operating system.
func localPaths(row *schemas.PromptRow) {
	row.Media, row.Noise, row.Reference = config.LocalPath(row.Media), config.LocalPath(row.Noise), config.LocalPaths(row.Reference)
}

// expand yields the samples of one record. For a bad record it yields one failed element.
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

// samples yields one element for each video that e's row asks for; videos is used if the row has no number. The elements share
// their tensors, which nobody changes.
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
