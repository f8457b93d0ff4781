package pipelines

import (
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"latentbeam/internal/config"
	"latentbeam/internal/table"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// media reads rows of videos and images: from tables that name them, or the files themselves.
type media struct {
	files []string // tables, media files and folders of frames, in order
	opts  table.Options
	limit int // on rows; 0: none
}

// captionExt is the extension of a text beside a media file that holds its caption.
const captionExt = ".txt"

// openMedia checks the form of every table among files.
func openMedia(cfg *config.Config, files []string, limit int) (media, error) {
	opts := table.Options{Format: cfg.Input.Format, Columns: cfg.Input.Columns, Media: true}
	s := media{opts: opts, limit: limit}
	for _, file := range files {
		if strings.EqualFold(filepath.Ext(file), captionExt) {
			continue // belongs to the file beside it
		}
		if s.isTable(file) {
			if err := checkTable([]string{file}, s.opts); err != nil {
				return media{}, err
			}
		}
		s.files = append(s.files, file)
	}
	if len(s.files) == 0 {
		return media{}, cfg.Errorf("input.media", "there are captions but no media among the files")
	}
	return s, nil
}

func (s media) isTable(file string) bool { return table.IsTable(file, s.opts) }

// Rows yields an element for each row of a table and for each media file.
func (s media) Rows(context.Context, bool) iter.Seq2[*stages.Element, error] {
	return func(yield func(*stages.Element, error) bool) {
		left := s.limit
		for _, file := range s.files {
			for e, err := range s.rows(file) {
				if !yield(e, err) || err != nil {
					return
				}
				if left--; left == 0 {
					return
				}
			}
		}
	}
}

// rows yields the rows of one file.
func (s media) rows(file string) iter.Seq2[*stages.Element, error] {
	return func(yield func(*stages.Element, error) bool) {
		if !s.isTable(file) {
			yield(mediaFile(file), nil)
			return
		}
		p, err := table.Open([]string{file}, s.opts)
		if err != nil {
			yield(nil, err)
			return
		}
		defer p.Close()
		for rec, err := range p.All() {
			if err != nil {
				yield(nil, err)
				return
			}
			e := &stages.Element{Row: rec.Row}
			if rec.Bad != nil {
				e.Fail("read", fault.Row(rec.Bad))
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// mediaFile is the row of a media file: its name is the id, the text beside it the caption.
func mediaFile(file string) *stages.Element {
	stem := strings.TrimSuffix(file, filepath.Ext(file))
	e := &stages.Element{Row: schemas.PromptRow{ID: filepath.Base(stem), Media: file, Source: file}}
	caption, err := readCaption(stem + captionExt)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		e.Fail("read", fault.Row(err))
	}
	e.Row.Prompt = strings.TrimSpace(caption)
	return e
}

// readCaption reads a text that is no longer than a prompt may be.
func readCaption(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, schemas.MaxPromptBytes+1))
	if err == nil && len(text) > schemas.MaxPromptBytes {
		err = errors.New(path + ": the caption is longer than a prompt may be")
	}
	return string(text), err
}
