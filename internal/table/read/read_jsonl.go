package read

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"latentbeam/internal/config/document"
	"latentbeam/internal/table/typed"
	"latentbeam/schemas"
)

// jsonlReader reads one JSON object a line. Empty lines are no rows. Keys may differ from row to row.
type jsonlReader struct {
	path    string
	lines   *lineReader
	names   names
	known   map[string]column // keys seen so far
	members []member          // of the row at hand
}

// member is one key and value of a row, as JSON.
type member struct {
	column
	key, val []byte
}

// column is what a key stands for. also says that one that gives a field is carried as well.
type column struct {
	field, rank int
	also        bool
}

func openJSONL(path string, names names) (rowReader, error) {
	lines, err := openLines(path)
	if err != nil {
		return nil, err
	}
	r := &jsonlReader{path: path, lines: lines, names: names, known: map[string]column{}}
	if err := r.probe(path); err != nil {
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

// probe reads the first rows: where none has a prompt, the file as a whole names it otherwise.
func (r *jsonlReader) probe(path string) error {
	keys := map[string]bool{}
	var raw rawRow
	for range jsonlProbeRows {
		raw.reset()
		err := r.next(&raw)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return document.NewError(document.Position{File: path}, "%v", err)
		}
		if raw.values[r.names.needed].Kind != typed.Absent {
			return nil
		}
		if raw.fault == "" || len(r.known) > 0 {
			for key := range r.known {
				keys[strings.Trim(key, `"`)] = true
			}
		}
		if len(keys) > maxColumns {
			break
		}
	}
	if len(keys) == 0 {
		return nil // no rows, or none that is JSON: those are bad rows
	}
	sorted := slices.Sorted(maps.Keys(keys))
	for mapped, field := range r.names.taken {
		if field == r.names.needed {
			return document.NewError(document.Position{File: path}, "no key %q, to which input.columns maps %s", mapped,
				schemas.Fields()[field].Name).WithFix("the keys are: %s", typed.Listed(sorted))
		}
	}
	return r.names.noColumn(document.Position{File: path}, sorted)
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
	case !utf8.Valid(text):
		raw.fault, raw.fix = "not valid UTF-8", "save the file as UTF-8"
		return nil
	}
	text = bytes.TrimSpace(text)
	if !json.Valid(text) {
		raw.fault, raw.fix = "not JSON: "+jsonFault(text), "write one object a line; JSON has no NaN and no comments"
		return nil
	}
	if text[0] != '{' {
		raw.fault, raw.fix = "not a JSON object", `write {"prompt": "..."}`
		return nil
	}
	r.members = r.members[:0]
	members(text, func(key, val []byte) {
		r.members = append(r.members, member{column: r.column(raw, key), key: key, val: val})
	})
	r.take(raw)
	return nil
}

func jsonFault(text []byte) string {
	var v json.RawMessage
	if err := json.Unmarshal(text, &v); err != nil {
		return schemas.ValidText(err.Error(), 100)
	}
	return ""
}

// column finds what a key is for, and remembers it.
func (r *jsonlReader) column(raw *rawRow, key []byte) column {
	if c, known := r.known[string(key)]; known {
		return c
	}
	name, err := jsonText(key)
	if err != nil && raw.fault == "" {
		raw.fault = "a key is " + err.Error()
	}
	field, rank := r.names.find(name)
	c := column{field: field, rank: rank, also: field != carried && r.names.carries(name, field)}
	r.names.uses.note(r.names.useOf(r.path, name, field))
	if len(r.known) < maxColumns {
		r.known[string(key)] = c
	}
	return c
}

// take gives each field the member with the best name for it, and carries the others.
func (r *jsonlReader) take(raw *rawRow) {
	var best [numValues]int // index of the member + 1
	for i, m := range r.members {
		if m.field == carried {
			continue
		}
		if b := best[m.field]; b == 0 || m.rank < r.members[b-1].rank {
			best[m.field] = i + 1
		}
	}
	for i, m := range r.members {
		if m.field == carried || best[m.field] != i+1 {
			raw.carry(m.key, m.val)
			continue
		}
		v, err := jsonValue(m.val)
		if err != nil && raw.fault == "" {
			raw.fault = fieldName(m.field) + ": " + err.Error()
			raw.fix = "write both halves, or the character"
		}
		raw.values[m.field] = v
		if m.also {
			raw.carry(m.key, m.val)
		}
	}
}

// carry appends a JSON member to the columns that go along.
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
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return typed.Cell{Kind: typed.IntegerValue, Text: text, Int: n}, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return typed.Cell{Kind: typed.OtherValue, Text: text}, nil //nolint:nilerr // out of float64's range: no field takes it
	}
	return typed.Cell{Kind: typed.RealValue, Text: text, Float: f}, nil
}

func (r *jsonlReader) close() error { return r.lines.close() }
