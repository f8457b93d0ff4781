package read

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"

	"latentbeam/internal/config/document"
	"latentbeam/internal/table/typed"
)

// jsonlReader reads one JSON object for each line. It skips empty lines.
type jsonlReader struct {
	lines *lineReader
	objects
}

// openJSONL opens a file of JSON: an array of objects if it starts with a bracket, otherwise one object for each line.
func openJSONL(path string, names names) (rowReader, error) {
	lines, err := openLines(path)
	if err != nil {
		return nil, err
	}
	if head := firstByte(lines.buf); head == '[' {
		return openArray(path, lines, names)
	}
	r := &jsonlReader{lines: lines, objects: newObjects(path, names)}
	if err := r.probe(r.next); err != nil {
		_ = lines.close()
		return nil, err
	}
	if err := lines.close(); err != nil {
		return nil, err
	}
	if r.lines, err = openLines(path); err != nil {
		return nil, err
	}
	return r, nil
}

// openJSON opens a file whose name says only that it contains JSON.
func openJSON(path string, names names) (rowReader, error) {
	r, err := openJSONL(path, names)
	if err != nil {
		return nil, err
	}
	lines, is := r.(*jsonlReader)
	if !is {
		return r, nil
	}
	var raw rawRow
	if err := lines.next(&raw); err == nil && raw.fault != "" {
		_ = r.close()
		return nil, document.NewError(document.Position{File: path, Line: raw.line}, "this is no table: %s", raw.fault).
			WithFix("a table is an array of objects, or an object a line, as [{\"path\": \"a.mp4\", \"caption\": \"...\"}]")
	}
	if err := r.close(); err != nil {
		return nil, err
	}
	return openJSONL(path, names)
}

// firstByte returns the first byte that is not a space, 0 if the first bytes have none.
func firstByte(r *bufio.Reader) byte {
	head, _ := r.Peek(4096)
	if head = bytes.TrimLeft(head, " \t\r\n"); len(head) > 0 {
		return head[0]
	}
	return 0
}

func (r *jsonlReader) next(raw *rawRow) error {
	text, err := r.lines.read()
	for err == nil && len(bytes.TrimSpace(text)) == 0 {
		text, err = r.lines.read()
	}
	raw.line = r.lines.line
	switch {
	case errors.Is(err, errTooLong):
		raw.fault, raw.fix = "the line is "+err.Error(), "one line is one row"
		return nil
	case err != nil:
		return err
	}
	r.row(raw, text)
	return nil
}

func (r *jsonlReader) close() error { return r.lines.close() }

// arrayReader reads the elements of a JSON array: objects, or texts, which are prompts.
type arrayReader struct {
	lines *lineReader
	objects
	number int // of the last element, from 1
	began  bool
	text   []byte
}

func openArray(path string, lines *lineReader, names names) (rowReader, error) {
	r := &arrayReader{lines: lines, objects: newObjects(path, names)}
	err := r.probe(r.next)
	if closeErr := lines.close(); err == nil {
		err = closeErr
	}
	if err == nil {
		r.lines, err = openLines(path)
	}
	if err != nil {
		return nil, err
	}
	r.number, r.began = 0, false
	return r, nil
}

func (r *arrayReader) next(raw *rawRow) error {
	tooLong, err := r.element()
	if err != nil {
		return err
	}
	r.number++
	raw.line, raw.unit = r.number, "row "
	switch {
	case tooLong:
		raw.fault, raw.fix = "the element is "+errTooLong.Error(), "one element is one row"
	case r.text[0] == '"' && r.names.needed == fieldPrompt:
		raw.setCaptions(append(append([]byte{'['}, r.text...), ']'))
	default:
		r.row(raw, r.text)
	}
	return nil
}

// element reads the next element into text. It returns io.EOF after the last. It splits without parsing.
func (r *arrayReader) element() (tooLong bool, err error) {
	r.text = r.text[:0]
	depth, inText, escaped := 0, false, false
	for {
		c, err := r.lines.buf.ReadByte()
		if errors.Is(err, io.EOF) {
			return false, document.NewError(document.Position{File: r.path}, "the array is not closed behind element %d", r.number).
				WithFix("copy or make the file again: it is cut off")
		}
		if err != nil {
			return false, err
		}
		if len(r.text) == 0 {
			switch {
			case c == ' ', c == '\t', c == '\r', c == '\n', c == ',' && r.began:
				continue
			case c == '[' && !r.began:
				r.began = true
				continue
			case c == ']':
				return false, r.checkEnd()
			}
		}
		if depth == 0 && !inText && len(r.text) > 0 && (endsScalar(c) || closes(r.text)) {
			return tooLong, r.lines.buf.UnreadByte()
		}
		switch {
		case escaped:
			escaped = false
		case inText:
			escaped = c == '\\'
			inText = c != '"'
		case c == '"':
			inText = true
		case c == '{', c == '[':
			depth++
		case c == '}', c == ']':
			depth--
		}
		if len(r.text) >= typed.MaxRecordBytes { // continue to find its end
			tooLong = true
			r.text = append(r.text[:1], c)
			continue
		}
		r.text = append(r.text, c)
	}
}

// closes reports whether an element ends with its closing bracket or quote.
func closes(text []byte) bool {
	last := text[len(text)-1]
	return last == '}' || last == ']' || last == '"' && len(text) > 1
}

// checkEnd checks that nothing follows the array.
func (r *arrayReader) checkEnd() error {
	for {
		c, err := r.lines.buf.ReadByte()
		switch {
		case err != nil:
			return err
		case c != ' ' && c != '\t' && c != '\r' && c != '\n':
			return document.NewError(document.Position{File: r.path}, "text follows the end of the array behind element %d", r.number).
				WithFix("one file is one array")
		}
	}
}

func (r *arrayReader) close() error { return r.lines.close() }

// carry appends a JSON member to the carried columns.
func (r *rawRow) carry(key, val []byte) {
	if len(r.extra) > 0 {
		r.extra = append(r.extra, ',')
	}
	r.extra = append(r.extra, key...)
	r.extra = append(r.extra, ':')
	r.extra = append(r.extra, val...)
}

func jsonValue(val []byte) (typed.Cell, error) {
	switch val[0] {
	case '"':
		text, err := jsonText(val)
		return typed.Cell{Kind: typed.TextValue, Text: text}, err
	case 'n':
		return typed.Cell{}, nil
	case 't', 'f':
		return typed.Cell{Kind: typed.BoolValue, Text: string(val)}, nil
	case '{', '[':
		return typed.Cell{Kind: typed.OtherValue, Text: string(val[:min(len(val), 100)])}, nil
	}
	text := string(val)
	if isNaN(val) {
		return typed.Cell{Kind: typed.OtherValue, Text: text}, nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return typed.Cell{Kind: typed.IntegerValue, Text: text, Int: n}, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return typed.Cell{Kind: typed.OtherValue, Text: text}, nil //nolint:nilerr // out of float64's range: no field accepts it
	}
	return typed.Cell{Kind: typed.RealValue, Text: text, Float: f}, nil
}
