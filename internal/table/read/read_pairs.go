package read

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"latentbeam/internal/config/document"
	"latentbeam/internal/storage/source"
)

// Lists are the names of text files that list media, one path for each line. CaptionLists are the names of the files beside
// them with the caption in the same line, as finetrainers and CogVideoX read them.
var (
	Lists        = []string{"videos.txt", "images.txt"}
	CaptionLists = []string{"prompts.txt", "captions.txt"}
)

// CaptionList returns the file with the captions for a list of media, "" if path is no such list.
func CaptionList(path string) (string, error) {
	if !slices.Contains(Lists, filepath.Base(path)) {
		return "", nil
	}
	for _, name := range CaptionLists {
		at := path[:len(path)-len(filepath.Base(path))] + name
		file, err := source.Open(context.Background(), at)
		if err == nil {
			return at, file.Close()
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return "", nil
}

// pairReader reads two files line by line: paths of media, and their captions.
type pairReader struct{ media, captions *lineReader }

// openPairs opens a list of media and its captions, and checks that they have the same number of lines. Blank lines at the end
// are ignored.
func openPairs(path, captions string) (rowReader, error) {
	lines := map[string]int{}
	for _, file := range []string{path, captions} {
		n, err := countLines(file)
		if err != nil {
			return nil, err
		}
		lines[file] = n
	}
	if lines[path] != lines[captions] {
		return nil, document.NewError(document.Position{File: path}, "it has %d lines, and %s has %d", lines[path], captions, lines[captions]).
			WithFix("give each line of the one a line in the other")
	}
	media, err := openLines(path)
	if err != nil {
		return nil, err
	}
	texts, err := openLines(captions)
	if err != nil {
		_ = media.close()
		return nil, err
	}
	return &pairReader{media, texts}, nil
}

// countLines counts the lines up to the last one that is not blank.
func countLines(path string) (last int, err error) {
	r, err := openLines(path)
	if err != nil {
		return 0, err
	}
	defer r.close()
	for {
		text, err := r.read()
		switch {
		case errors.Is(err, io.EOF):
			return last, nil
		case err != nil && !errors.Is(err, errTooLong):
			return 0, err
		case err != nil || len(bytes.TrimSpace(text)) > 0:
			last = r.line
		}
	}
}

func (r *pairReader) next(raw *rawRow) error {
	path, err := r.media.read()
	if err == nil {
		raw.values[fieldMedia] = textCell(strings.TrimSpace(string(path)))
	} else if !errors.Is(err, errTooLong) {
		return err
	}
	text, textErr := r.captions.read()
	if errors.Is(textErr, io.EOF) { // blank lines at the end of the other file
		return io.EOF
	}
	raw.line = r.media.line
	switch {
	case errors.Is(err, errTooLong), errors.Is(textErr, errTooLong):
		raw.fault, raw.fix = "the line is "+errTooLong.Error(), "one line is one path, or its caption"
		return nil
	case textErr != nil:
		return textErr
	}
	raw.values[fieldPrompt] = textCell(strings.TrimSpace(string(text)))
	if raw.values[fieldMedia].Text == "" && raw.values[fieldPrompt].Text == "" {
		return r.next(raw)
	}
	return nil
}

func (r *pairReader) close() error { return errors.Join(r.media.close(), r.captions.close()) }
