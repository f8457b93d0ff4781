package read

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"path"
	"path/filepath"
	"strings"

	"latentbeam/internal/config/document"
	"latentbeam/internal/media"
	"latentbeam/internal/storage/source"
	"latentbeam/internal/storage/store"
	"latentbeam/internal/table/pages"
	"latentbeam/internal/table/typed"
	"latentbeam/schemas"
)

// tarReader reads the samples of a WebDataset tar: consecutive members whose names differ only after the first dot. It reads
// the position of the media, not their content.
type tarReader struct {
	path  string
	names names
	file  store.Reader
	at    *window
	tar   *tar.Reader
	head  *tar.Header // of the next sample; nil: there is none
	end   int64       // end of the members read so far
	row   int
	seed  maphash.Seed
	seen  map[uint64]struct{} // hashes of the samples' keys so far
}

func openTar(at string, names names) (rowReader, error) {
	pos := document.Position{File: at}
	if names.needed != fieldMedia {
		return nil, document.NewError(pos, "a tar holds media and no table of prompts").WithFix("name it in input.media")
	}
	if !strings.EqualFold(filepath.Ext(at), ".tar") {
		return nil, document.NewError(pos, "media cannot be read out of a packed tar").
			WithFix("unpack it to .tar, as WebDataset does for videos")
	}
	file, err := source.Open(context.Background(), at)
	if err != nil {
		return nil, pages.Unopened(at, err)
	}
	r := &tarReader{path: at, names: names, file: file, at: &window{file: file}, seed: maphash.MakeSeed(), seen: map[uint64]struct{}{}}
	r.tar = tar.NewReader(r.at)
	if err := r.advance(); err != nil && !errors.Is(err, io.EOF) {
		_ = file.Close()
		return nil, err
	}
	return r, nil
}

// endMark is the number of zeros that end a tar. Without this check a file that was cut off between two members would look
// complete.
const endMark = 1024

// advance moves to the next file of the tar. It returns io.EOF if there is none.
func (r *tarReader) advance() error {
	last := "its beginning"
	if r.head != nil {
		last = r.head.Name
	}
	for {
		h, err := r.tar.Next()
		if err != nil {
			r.head = nil
		}
		switch {
		case errors.Is(err, io.EOF) && r.at.at < r.end+endMark:
			return document.NewError(document.Position{File: r.path}, "the tar is cut off behind %s: it has no end mark", last).
				WithFix("copy or make the file again; if it is whole, append 1024 zeros")
		case errors.Is(err, io.EOF):
			return err
		case err != nil:
			return document.NewError(document.Position{File: r.path}, "the tar is damaged behind %s: %v", last, err).
				WithFix("copy or make the file again")
		}
		r.end = (r.at.at + h.Size + 511) &^ 511
		if h.Typeflag == tar.TypeReg && !strings.HasPrefix(path.Base(h.Name), ".") {
			r.head = h
			return nil
		}
	}
}

// sampleKey returns a member's name up to the first dot of its last part.
func sampleKey(name string) string {
	dir, base := path.Split(name)
	key, _, _ := strings.Cut(base, ".")
	return dir + key
}

func (r *tarReader) next(raw *rawRow) error {
	if r.head == nil {
		return io.EOF
	}
	r.row++
	raw.line, raw.unit = r.row, "sample "
	key := sampleKey(r.head.Name)
	hash := maphash.String(r.seed, key)
	_, again := r.seen[hash]
	r.seen[hash] = struct{}{}
	raw.values[fieldID] = textCell(key)
	var members []string
	kind := ""         // of the media
	var caption []byte // from the fields
	for r.head != nil && sampleKey(r.head.Name) == key {
		name := r.head.Name
		ext := strings.ToLower(path.Ext(name))
		members = append(members, name)
		switch found := media.KindOf(ext); {
		case ext == ".txt":
			r.caption(raw)
		case ext == ".json":
			caption = r.fields(raw)
		case found == "":
		case kind == found:
			raw.setFault(fmt.Sprintf("the sample has two of %s: %s", found, strings.Join(members, ", ")),
				"give each a name of its own in front of the first dot")
		case kind != "video": // an image beside a video is its preview
			kind = found
			raw.values[fieldMedia] = r.place(raw)
		}
		if err := r.advance(); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	if again {
		raw.fault = fmt.Sprintf("members of sample %s do not lie next to each other: these lie apart from the first ones: %s", key,
			strings.Join(members, ", "))
		raw.fix = "make the tar in the order of the names: tar --sort=name -cf FILE.tar FOLDER"
		return nil
	}
	switch {
	case raw.values[fieldPrompt].Kind != typed.Absent || caption == nil:
	case caption[0] == '[':
		raw.setCaptions(caption)
	default:
		if text, err := jsonText(caption); err == nil {
			raw.values[fieldPrompt] = textCell(text)
		}
	}
	if kind == "" {
		raw.setFault("the sample has no video or image that can be read, only "+strings.Join(members, ", "), "add one, such as "+key+".mp4")
	}
	return nil
}

func textCell(s string) typed.Cell { return typed.Cell{Kind: typed.TextValue, Text: s} }

// setFault makes the row a bad row, unless it is one already.
func (r *rawRow) setFault(fault, fix string) {
	if r.fault == "" {
		r.fault, r.fix = fault, fix
	}
}

// place returns the position of the current member's content.
func (r *tarReader) place(raw *rawRow) typed.Cell {
	for name := range r.head.PAXRecords {
		if strings.HasPrefix(name, "GNU.sparse.") {
			raw.setFault(r.head.Name+" is stored with holes", "make the tar without --sparse")
		}
	}
	return textCell(source.Member{File: r.path, Offset: r.at.at, Size: r.head.Size, Name: r.head.Name}.String())
}

// content reads the current member, if it has at most most bytes.
func (r *tarReader) content(raw *rawRow, most int64) []byte {
	if r.head.Size > most {
		raw.setFault(fmt.Sprintf("%s has %d bytes, more than %d", r.head.Name, r.head.Size, most), "make it shorter")
		return nil
	}
	data, err := io.ReadAll(r.tar)
	if err != nil {
		raw.setFault(fmt.Sprintf("%s: %v", r.head.Name, err), "copy or make the file again")
		return nil
	}
	return bytes.TrimSpace(data)
}

func (r *tarReader) caption(raw *rawRow) {
	text, err := Plain(r.content(raw, schemas.MaxPromptBytes))
	if err != nil {
		raw.setFault(r.head.Name+": "+err.Error(), "make the tar again with texts in UTF-8")
	} else if text != "" && raw.fault == "" {
		raw.values[fieldPrompt] = textCell(strings.TrimSpace(text))
	}
}

// fields carries the members of a JSON object. It returns the member that a table would use as the prompt, as JSON: a text or a
// list of texts.
func (r *tarReader) fields(raw *rawRow) (caption []byte) {
	text, err := Plain(r.content(raw, typed.MaxExtraBytes))
	if err != nil {
		raw.setFault(r.head.Name+": "+err.Error(), "make the tar again with texts in UTF-8")
		return nil
	}
	var plain bytes.Buffer
	if data := withoutNaN([]byte(text)); len(data) == 0 || data[0] != '{' || json.Compact(&plain, data) != nil {
		raw.setFault(r.head.Name+" is not a JSON object", `write {"caption": "..."}`)
		return nil
	}
	best := -1
	members(plain.Bytes(), func(key, val []byte) {
		raw.carry(key, val)
		name, err := jsonText(key)
		if field, rank := r.names.find(name); err == nil && field == fieldPrompt && (val[0] == '"' || val[0] == '[') &&
			(best < 0 || rank < best) {
			caption, best = val, rank
		}
	})
	return caption
}

func (r *tarReader) close() error { return r.file.Close() }

// windowBytes is how much of a tar is read at once: adjacent headers and captions need one request to a bucket.
const windowBytes = 64 << 10

// window reads a file in blocks, from any position.
type window struct {
	file  store.Reader
	at    int64 // next byte
	start int64 // start of piece
	piece []byte
}

// Read implements io.Reader.
func (w *window) Read(p []byte) (int, error) {
	if w.at < w.start || w.at >= w.start+int64(len(w.piece)) {
		if cap(w.piece) == 0 {
			w.piece = make([]byte, windowBytes)
		}
		n, err := w.file.ReadAt(w.piece[:cap(w.piece)], w.at)
		if w.start, w.piece = w.at, w.piece[:n]; n == 0 {
			return 0, err
		}
	}
	n := copy(p, w.piece[w.at-w.start:])
	w.at += int64(n)
	return n, nil
}

// Seek implements io.Seeker. A tar is read from its start.
func (w *window) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekStart:
		w.at = offset
	case io.SeekCurrent:
		w.at += offset
	default:
		return w.at, errors.ErrUnsupported
	}
	return w.at, nil
}
