package read

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"

	"latentbeam/internal/config/document"
	"latentbeam/internal/table/typed"
	"latentbeam/schemas"
)

// Options says how prompt tables are read.
type Options struct {
	Format  string            // auto (or ""), csv, jsonl, parquet or txt
	Columns map[string]string // field name -> column name, if they differ
	Media   bool              // rows name media to be encoded and need no prompt
	Own     []string          // user's own columns that stages depend on
	RawText bool              // every line of a txt is a prompt, also blank lines and comments
	Comma   rune              // separator of csv; 0: comma, semicolon, tab or bar, detected from the header
	// Params are the parameters that stages depend on. Other tools' names are recognised only for these; nil: for all.
	Params []string
	// Naming says how lengths such as "4s" are read. FPS is the frame rate for rows without one.
	Naming *schemas.Naming
	FPS    float64
	// Uses records what columns are used for; it may be nil.
	Uses *Uses
}

// depends reports whether the job uses a field. Every job uses ids, texts, media and the number of videos.
func (o Options) depends(field int) bool {
	switch {
	case o.Params == nil, field == fieldID, field == fieldPrompt, field == fieldMedia, field == fieldNumVideos:
		return true
	case field == fieldSize:
		return o.depends(fieldHeight) || o.depends(fieldWidth)
	}
	return slices.Contains(o.Params, schemas.Fields()[field].Name)
}

// Record is one row of a prompt table. If Bad is set, the row has the values that could be read, as valid text, cut to the
// length that a failure row shows.
type Record struct {
	Row schemas.PromptRow
	Bad *typed.RowError // nil for a good row
	// Sample is the index of the single video that the row asks for; nil: all videos.
	Sample *int
	// Suffix distinguishes the captions of one row. It is appended to an id that is derived from the media; "": there is one
	// caption.
	Suffix string
}

// Prompts reads prompt tables, one file after another. It is not safe for concurrent use.
type Prompts struct {
	files   []string
	format  string
	names   names
	at      int // index of the open file, or of the next one
	current rowReader
	raw     rawRow
	more    []Record // remaining records of the last row, which has a list of captions
}

// Open finds the files of the paths and glob patterns and checks that each can be opened and has a column of prompts. An error
// about a file's format is a *document.Error.
func Open(patterns []string, opts Options) (*Prompts, error) {
	files, err := ExpandTables(patterns)
	if err != nil {
		return nil, err
	}
	p := &Prompts{files: files, format: opts.Format, names: newNames(opts)}
	for _, file := range files {
		r, err := openFile(file, p.format, p.names)
		if err != nil {
			return nil, err
		}
		if err := r.close(); err != nil {
			return nil, fmt.Errorf("close %s: %w", file, err)
		}
	}
	return p, nil
}

// Next returns the next row, good or bad, and io.EOF after the last. After any other error the rest of the table cannot be
// read.
func (p *Prompts) Next() (Record, error) {
	for {
		if len(p.more) > 0 {
			rec := p.more[0]
			p.more = p.more[1:]
			return rec, nil
		}
		if p.current == nil {
			if p.at == len(p.files) {
				return Record{}, io.EOF
			}
			r, err := openFile(p.files[p.at], p.format, p.names)
			if err != nil {
				return Record{}, err
			}
			p.current = r
		}
		p.raw.reset()
		switch err := p.current.next(&p.raw); {
		case err == nil && len(p.raw.captions) > 1:
			p.more = p.captioned()
			continue
		case err == nil:
			return p.record(), nil
		case !errors.Is(err, io.EOF):
			var known *document.Error // it names the file
			if errors.As(err, &known) {
				return Record{}, err
			}
			return Record{}, fmt.Errorf("read %s: %w", p.files[p.at], err)
		}
		err := p.Close()
		p.at++
		if err != nil {
			return Record{}, fmt.Errorf("close %s: %w", p.files[p.at-1], err)
		}
	}
}

// All yields all rows. It stops at the first error that ends the table.
func (p *Prompts) All() iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for {
			rec, err := p.Next()
			if errors.Is(err, io.EOF) || !yield(rec, err) || err != nil {
				return
			}
		}
	}
}

// Close closes the open file. Reading can continue; it starts again at the beginning of the file.
func (p *Prompts) Close() error {
	if p.current == nil {
		return nil
	}
	err := p.current.close()
	p.current = nil
	return err
}

// captioned returns a record for each caption of the row. If the row has an id, the suffixes distinguish the records.
func (p *Prompts) captioned() (all []Record) {
	extra := len(p.raw.extra)
	id := p.raw.values[fieldID]
	for i, caption := range p.raw.captions {
		p.raw.extra = p.raw.extra[:extra]
		p.raw.values[fieldPrompt] = textCell(caption)
		suffix := fmt.Sprintf("#c%03d", i)
		if id.Text != "" {
			p.raw.values[fieldID] = textCell(id.Text + suffix)
		}
		rec := p.record()
		rec.Suffix = suffix
		all = append(all, rec)
	}
	return all
}

func (p *Prompts) record() Record {
	var rec Record
	row := &rec.Row
	row.Source = p.source()
	p.raw.needed, p.raw.naming, p.raw.fps = p.names.needed, p.names.naming, p.names.fps
	rec.Bad = p.raw.fill(row)
	rec.Sample = p.raw.sample
	if row.ID == "" {
		row.ID = row.ContentID()
	}
	if len(p.raw.extra) > 0 {
		row.Extra = "{" + string(p.raw.extra) + "}"
	}
	switch {
	case p.raw.fault != "":
		rec.Bad = &typed.RowError{Problem: p.raw.fault, Fix: p.raw.fix}
	case rec.Bad == nil && len(row.Extra) > typed.MaxExtraBytes:
		rec.Bad = &typed.RowError{Problem: fmt.Sprintf("the columns that are carried along take %d bytes, more than %d",
			len(row.Extra), typed.MaxExtraBytes), Fix: "take large columns out of the table"}
	}
	if rec.Bad != nil {
		rec.Bad.Source = row.Source
		row.ID = schemas.ValidText(row.ID, schemas.MaxIDBytes)
		row.Prompt = schemas.ValidText(row.Prompt, schemas.MaxFailurePromptBytes)
		row.NegativePrompt = schemas.ValidText(row.NegativePrompt, schemas.MaxFailurePromptBytes)
		if len(row.Extra) > typed.MaxExtraBytes {
			row.Extra = ""
		}
	}
	return rec
}

func (p *Prompts) source() string {
	var space [256]byte // most paths fit
	b := append(space[:0], p.files[p.at]...)
	b = append(b, ':')
	b = append(b, p.raw.unit...)
	return string(strconv.AppendInt(b, int64(p.raw.line), 10))
}
