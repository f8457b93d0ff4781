package read

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"latentbeam/internal/config/document"
	"latentbeam/internal/table/typed"
	"latentbeam/schemas"
)

// objects makes rows from JSON objects. Keys may differ from row to row.
type objects struct {
	path    string
	names   names
	known   map[string]column // keys seen so far
	members []member          // of the current row
}

// member is one key and value of a row, as JSON.
type member struct {
	column
	key, val []byte
}

// column is the meaning of a key. also says that a field is carried too.
type column struct {
	field, rank int
	also        bool
}

func newObjects(path string, n names) objects {
	return objects{path: path, names: n, known: map[string]column{}}
}

// probe reads the first rows. If none has what every row needs, the file as a whole is an error.
func (o *objects) probe(next func(*rawRow) error) error {
	keys := map[string]bool{}
	var raw rawRow
	found := false
	for range jsonlProbeRows {
		raw.reset()
		err := next(&raw)
		if errors.Is(err, io.EOF) {
			break
		}
		var known *document.Error
		if errors.As(err, &known) {
			return err
		}
		if err != nil {
			return document.NewError(document.Position{File: o.path}, "%v", err)
		}
		found = found || raw.values[o.names.needed].Kind != typed.Absent
		if raw.fault == "" || len(o.known) > 0 {
			for key := range o.known {
				keys[strings.Trim(key, `"`)] = true
			}
		}
		if len(keys) > maxColumns {
			break
		}
	}
	if len(keys) == 0 || found {
		return nil // no rows, or no valid JSON: these are bad rows
	}
	sorted := slices.Sorted(maps.Keys(keys))
	for mapped, field := range o.names.taken {
		if field == o.names.needed {
			return document.NewError(document.Position{File: o.path}, "no key %q, to which input.columns maps %s", mapped,
				schemas.Fields()[field].Name).WithFix("the keys are: %s", typed.Listed(sorted))
		}
	}
	return o.names.noColumn(document.Position{File: o.path}, sorted)
}

// row makes a row from the text of an object.
func (o *objects) row(raw *rawRow, text []byte) {
	text = bytes.TrimSpace(text)
	valid := text
	switch {
	case !utf8.Valid(text):
		raw.fault, raw.fix = "not valid UTF-8", "save the file as UTF-8"
		return
	case !json.Valid(text):
		if valid = withoutNaN(text); !json.Valid(valid) {
			raw.fault, raw.fix = "not JSON: "+jsonFault(text), "write one object a line; JSON has no comments"
			return
		}
	}
	if text[0] != '{' {
		raw.fault, raw.fix = "not a JSON object", `write {"prompt": "..."}`
		return
	}
	o.members = o.members[:0]
	members(text, func(key, val []byte) {
		o.members = append(o.members, member{column: o.column(raw, key), key: key, val: val})
	})
	o.assign(raw)
}

func jsonFault(text []byte) string {
	var v json.RawMessage
	if err := json.Unmarshal(text, &v); err != nil {
		return schemas.ValidText(err.Error(), 100)
	}
	return ""
}

// column returns the meaning of a key and caches it.
func (o *objects) column(raw *rawRow, key []byte) column {
	if c, known := o.known[string(key)]; known {
		return c
	}
	name, err := jsonText(key)
	if err != nil && raw.fault == "" {
		raw.fault = "a key is " + err.Error()
	}
	field, rank := o.names.find(name)
	c := column{field: field, rank: rank, also: field != carried && o.names.carries(name, field)}
	o.names.uses.record(o.names.useOf(o.path, name, field))
	if len(o.known) < maxColumns {
		o.known[string(key)] = c
	}
	return c
}

// assign gives each field the member with the best name, and carries the other members.
func (o *objects) assign(raw *rawRow) {
	var best [numValues]int // index of the member + 1
	for i, m := range o.members {
		if m.field == carried {
			continue
		}
		if b := best[m.field]; b == 0 || m.rank < o.members[b-1].rank {
			best[m.field] = i + 1
		}
	}
	for i, m := range o.members {
		if m.field == carried || best[m.field] != i+1 {
			raw.carry(m.key, withoutNaN(m.val))
			continue
		}
		o.setField(raw, m)
		if m.also {
			raw.carry(m.key, withoutNaN(m.val))
		}
	}
}

// setField stores a member in its field. A list of captions makes one row for each.
func (o *objects) setField(raw *rawRow, m member) {
	if m.field == fieldPrompt && m.val[0] == '[' {
		raw.setCaptions(m.val)
		return
	}
	if isNaN(m.val) && !o.names.depends(m.field) {
		return // treated as null
	}
	v, err := jsonValue(m.val)
	if err != nil && raw.fault == "" {
		raw.fault = fieldName(m.field) + ": " + err.Error()
		raw.fix = "write both halves, or the character"
	}
	raw.values[m.field] = v
}

// setCaptions makes the texts of a JSON list the captions of a row. An empty list counts as a missing caption.
func (r *rawRow) setCaptions(list []byte) {
	var items []json.RawMessage
	if err := json.Unmarshal(list, &items); err != nil {
		r.setFault("prompt: the list of captions is "+schemas.ValidText(err.Error(), 100), "write a list of texts")
		return
	}
	for _, item := range items {
		if item[0] != '"' {
			r.setFault("prompt: the list of captions holds something other than texts", "write a list of texts")
			return
		}
		text, err := jsonText(item)
		if err != nil {
			r.setFault("prompt: "+err.Error(), "write both halves, or the character")
		}
		r.captions = append(r.captions, text)
	}
	if len(r.captions) > 0 {
		r.values[fieldPrompt] = textCell(r.captions[0])
	}
}

// notNumbers are the words that Python's json writes for missing and infinite numbers. They are not valid JSON.
var notNumbers = []string{"NaN", "Infinity", "-Infinity"}

// isNaN reports whether a value is one of notNumbers.
func isNaN(val []byte) bool { return slices.Contains(notNumbers, string(val)) }

// withoutNaN replaces notNumbers outside of texts by null.
func withoutNaN(text []byte) []byte {
	if !bytes.Contains(text, []byte("NaN")) && !bytes.Contains(text, []byte("Infinity")) {
		return text
	}
	var out []byte
	for i := 0; i < len(text); {
		if text[i] == '"' {
			end := i + 1
			for end < len(text) && text[end] != '"' {
				if text[end] == '\\' {
					end++
				}
				end++
			}
			end = min(end+1, len(text))
			out, i = append(out, text[i:end]...), end
			continue
		}
		at := slices.IndexFunc(notNumbers, func(s string) bool { return bytes.HasPrefix(text[i:], []byte(s)) })
		if at >= 0 {
			out, i = append(out, "null"...), i+len(notNumbers[at])
			continue
		}
		out, i = append(out, text[i]), i+1
	}
	return out
}
