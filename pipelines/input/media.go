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

// mediaRows reads rows of videos and images, from media files or from tables that name media files.
type mediaRows struct {
	files []string // tables, media files and folders of frames, in order
	// folders maps a table that was found in a folder to that folder. Paths and ids of its rows are relative to the folder.
	folders map[string]string
	opts    read.Options
	limit   int               // maximal rows; 0: no limit
	ids     map[string]string // ids of files that share a name with others
	texts   *sync.Map         // cache of captions in buckets and on the web, by address
}

// captionExt is the extension of the text file beside a media file that contains its caption.
const captionExt = ".txt"

// openMedia sorts files into media files, tables and captions, and checks the format of every table.
func openMedia(cfg *config.Config, files []string, limit int, want needs) (mediaRows, error) {
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
			return mediaRows{}, document.NewError(document.Position{File: file}, "standard input can be a table, but not a media file").
				WithFix("set input.format to csv, jsonl, parquet or txt")
		}
		if strings.EqualFold(filepath.Ext(file), captionExt) {
			captions, err := read.CaptionList(file)
			if err != nil {
				return mediaRows{}, err
			}
			if captions == "" {
				continue // the caption of a media file
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
		want.notes.add("%d json files that share their name with a media file are not read: captions are txt files, or columns of one table", len(beside))
	}
	if len(s.files) == 0 {
		return mediaRows{}, cfg.Errorf("input."+kind, "there are captions but no media among the files")
	}
	return s, nil
}

// sidecars returns the json files that share their name with a media file. Such a file describes the media file and is not a
// table.
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

// Rows yields an element for each row of the tables and for each media file.
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
				resolvePath(&e.Row, folder, rec.Suffix)
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

// metadataOf returns the table of a data set folder with the layout of Hugging Face; "": not such a folder.
func metadataOf(folder string) (string, error) {
	if source.IsAddress(folder) {
		if !strings.HasSuffix(folder, "/") {
			return "", nil
		}
	} else if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		return "", nil //nolint:nilerr // reading it reports the error
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

// resolvePath makes the media path of a row, which is relative to the folder of its table, a path below that folder. A row without
// an id gets its relative path as id.
func resolvePath(row *schemas.PromptRow, folder, suffix string) {
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

// mediaFile returns the row of a media file: its name is the id, and the text file beside it is the caption.
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

// caption reads the caption at a location. It caches captions that are not on this host.
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

// readCaption reads a caption file. A caption that is longer than the maximal prompt is an error.
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
