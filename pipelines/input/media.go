package input

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"latentbeam/internal/config"
	"latentbeam/internal/config/document"
	"latentbeam/internal/media"
	"latentbeam/internal/storage/source"
	"latentbeam/internal/table/read"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// mediaRows reads rows of videos and images: from tables that name them, or the files themselves.
type mediaRows struct {
	files []string // tables, media files and folders of frames, in order
	// folders are those of tables that were found in them: paths and ids begin there.
	folders map[string]string
	opts    read.Options
	limit   int               // on rows; 0: none
	ids     map[string]string // of files whose names others have, too
	texts   *sync.Map         // captions of files at addresses, by address: each is asked for once
}

// captionExt is the extension of a text beside a media file that holds its caption.
const captionExt = ".txt"

// openMedia checks the form of every table among files.
func openMedia(cfg *config.Config, files []string, limit int, want wanted) (mediaRows, error) {
	opts := want.options(cfg)
	opts.Media = true
	s := mediaRows{opts: opts, limit: limit, texts: &sync.Map{}, folders: map[string]string{}}
	kind, patterns := cfg.Input.Source()
	noteLeftOut(patterns, files, want.notes)
	if cfg.Input.Folders != config.FoldersClip {
		var err error
		if files, err = openFolders(files, want.notes); err != nil {
			return mediaRows{}, err
		}
	}
	beside := sidecars(files)
	for _, file := range files {
		if file == source.Stdin && !s.isTable(file) {
			return mediaRows{}, document.NewError(document.Position{File: file}, "standard input can be a table, no media file").
				WithFix("set input.format to csv, jsonl, parquet or txt")
		}
		if strings.EqualFold(filepath.Ext(file), captionExt) {
			captions, err := read.CaptionList(file)
			if err != nil {
				return mediaRows{}, err
			}
			if captions == "" {
				continue // belongs to the file beside it
			}
			s.folders[file] = strings.TrimSuffix(file, filepath.Base(file))
		}
		if beside[file] {
			continue
		}
		table, err := metadataOf(file)
		if err != nil {
			return mediaRows{}, err
		}
		if table != "" {
			s.folders[table], file = file, table
		}
		if s.isTable(file) {
			if err := checkTable([]string{file}, s.opts); err != nil {
				return mediaRows{}, err
			}
		}
		s.files = append(s.files, file)
	}
	s.ids = fileIDs(slices.DeleteFunc(slices.Clone(s.files), s.isTable))
	want.shared.Store(len(s.ids) > 0)
	if len(beside) > 0 {
		want.notes.add("%d json files beside media files of their names are not read: captions are txt files, or columns of one table", len(beside))
	}
	if len(s.files) == 0 {
		return mediaRows{}, cfg.Errorf("input."+kind, "there are captions but no media among the files")
	}
	return s, nil
}

// sidecars are the json files that have the name of a media file beside them. They describe it and are no tables.
func sidecars(files []string) map[string]bool {
	stem := func(file string) string { return strings.TrimSuffix(file, filepath.Ext(file)) }
	found, stems := map[string]bool{}, map[string]bool{}
	for _, file := range files {
		if media.KindOf(file) != "" {
			stems[stem(file)] = true
		}
	}
	for _, file := range files {
		if strings.EqualFold(filepath.Ext(file), ".json") && stems[stem(file)] {
			found[file] = true
		}
	}
	return found
}

func (s mediaRows) isTable(file string) bool { return read.IsTable(file, s.opts) }

// Rows yields an element for each row of a table and for each media file.
func (s mediaRows) Rows(context.Context, bool) iter.Seq2[*stages.Element, error] {
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
func (s mediaRows) rows(file string) iter.Seq2[*stages.Element, error] {
	return func(yield func(*stages.Element, error) bool) {
		if !s.isTable(file) {
			yield(s.mediaFile(file))
			return
		}
		p, err := read.Open([]string{file}, s.opts)
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
			localPaths(&rec.Row)
			e := &stages.Element{Row: rec.Row}
			if folder, inside := s.folders[file]; inside {
				place(&e.Row, folder, rec.Suffix)
			}
			if rec.Bad != nil {
				e.Wrong = rec.Bad.Given
				e.Fail("read", fault.Row(rec.Bad))
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// metadataOf is the table of a folder that is a data set as Hugging Face lays it out, "" for all else.
func metadataOf(folder string) (string, error) {
	if source.IsAddress(folder) {
		if !strings.HasSuffix(folder, "/") {
			return "", nil
		}
	} else if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		return "", nil //nolint:nilerr // whoever reads it says so
	}
	for _, name := range slices.Concat(metadataNames, read.Lists) {
		table := strings.TrimSuffix(folder, "/") + "/" + name
		if slices.Contains(read.Lists, name) {
			if captions, err := read.CaptionList(table); captions == "" || err != nil {
				return "", err
			}
		}
		file, err := source.Open(context.Background(), table)
		if err == nil {
			return table, file.Close()
		}
		if !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
	}
	return "", nil
}

// place puts the path of a row of a folder's table below the folder. It is the id of a row without one, as the name of a
// file is.
func place(row *schemas.PromptRow, folder, suffix string) {
	at := row.Media
	if _, inside := source.ParseMember(at); at == "" || inside || source.IsAddress(at) || filepath.IsAbs(at) {
		return
	}
	if row.ID == row.ContentID() {
		row.ID = schemas.ValidText(strings.TrimSuffix(at, filepath.Ext(at)), schemas.MaxIDBytes-len(suffix)) + suffix
	}
	if row.Media = path.Clean(at); folder != "" {
		row.Media = strings.TrimSuffix(folder, "/") + "/" + row.Media
	}
}

// mediaFile is the row of a media file: its name is the id, the text beside it the caption.
func (s mediaRows) mediaFile(file string) (*stages.Element, error) {
	stem := strings.TrimSuffix(file, filepath.Ext(file))
	e := &stages.Element{Row: schemas.PromptRow{ID: cmp.Or(s.ids[file], stemOf(file)), Media: file, Source: file}}
	caption, err := s.caption(stem + captionExt)
	failure, err := source.RowFailure(err)
	if err != nil {
		return nil, err
	}
	if failure != nil && !errors.Is(failure, os.ErrNotExist) {
		e.Fail("read", failure)
	}
	e.Row.Prompt = strings.TrimSpace(caption)
	return e, nil
}

// caption reads the caption at a location; one at an address is kept.
func (s mediaRows) caption(at string) (string, error) {
	if known, found := s.texts.Load(at); found {
		return known.(string), nil
	}
	text, err := readCaption(at)
	if source.IsAddress(at) && (err == nil || errors.Is(err, os.ErrNotExist)) {
		s.texts.Store(at, text)
		err = nil
	}
	return text, err
}

// readCaption reads a text that is no longer than a prompt may be.
func readCaption(path string) (string, error) {
	f, err := source.Open(context.Background(), path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.NewSectionReader(f, 0, schemas.MaxPromptBytes+1))
	if err == nil && len(text) > schemas.MaxPromptBytes {
		err = errors.New(path + ": the caption is longer than a prompt may be")
	}
	if err != nil {
		return "", err
	}
	plain, err := read.Plain(text)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return plain, nil
}
