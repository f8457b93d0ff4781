package config

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"sort"
)

// Stages is the list of a job's stages, in order.
type Stages []Stage

// Stage is one entry of the list: a stage's name and its options, which only the stage understands.
type Stage struct {
	Name    string
	Options Options
}

// Label is the option `name` of a stage that a job may have more than once, else the name of the stage.
func (s Stage) Label() string {
	if e := s.Options.node.lookup("name"); e != nil && e.value.kind == textKind && e.value.text != "" {
		return e.value.text
	}
	return s.Name
}

// Position is where the stage stands in the file.
func (s Stage) Position() Position { return s.Options.pos }

// MarshalJSON writes the stage as a map of one key.
func (s Stage) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]Options{s.Name: s.Options})
}

const stageForm = "a stage's name, or a map of one stage's name to its options"

func (l *Stages) fromNode(n *node) (string, bool) {
	const wanted = "a list of stages"
	if n.kind != listKind {
		return wanted, false
	}
	for _, item := range n.items {
		s, ok := stageOf(item)
		if !ok {
			s.Options.pos = item.pos // reported by validate, which names the entry
		}
		*l = append(*l, s)
	}
	return wanted, true
}

func stageOf(item *node) (Stage, bool) {
	switch {
	case item.kind == textKind && item.text != "":
		return Stage{Name: item.text, Options: Options{name: item.text, pos: item.pos}}, true
	case item.kind == mapKind && len(item.pairs) == 1:
		p := item.pairs[0]
		if p.value.kind == mapKind || p.value.kind == nullKind {
			return Stage{Name: p.key, Options: Options{name: p.key, pos: p.pos, node: p.value}}, true
		}
	}
	return Stage{}, false
}

// Options is a stage's part of the file before the stage has read it.
type Options struct {
	name string
	pos  Position
	node *node // nil where the stage has none
}

// Has reports whether the file gives the option.
func (o Options) Has(key string) bool { return o.node.lookup(key) != nil }

// ParseOptions reads options from YAML text, for programs and tests that build stages without a file.
func ParseOptions(name, text string) (Options, error) {
	src := &source{name: name, text: []byte(text)}
	n, problems := parse(src, "")
	if problems != nil {
		return Options{}, problems
	}
	o := Options{name: name, pos: Position{src: src, Line: 1}, node: n}
	if n != nil && n.kind != mapKind && n.kind != nullKind {
		return Options{}, NewError(n.pos, "options must be a map of keys and values, not %s", n.describe())
	}
	return o, nil
}

// Decode fills into, a pointer to a struct whose fields carry yaml tags, and keeps what the options do not
// say. Unknown keys and wrong types are reported with their lines. Fields may have the types of this
// package, such as Duration, or be schemas.AutoInt; structs may be embedded. The error is an *Error.
func (o Options) Decode(into any) error {
	v := reflect.ValueOf(into)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return fmt.Errorf("decode options of %s: want a pointer to a struct, got %T", o.name, into)
	}
	if o.node == nil {
		return nil
	}
	problems := &Error{}
	d := decoder{errors: problems}
	d.decode(o.node, v.Elem(), o.name)
	return problems.orNil()
}

// Errorf reports a problem with one option; "" as the key means the stage as a whole.
func (o Options) Errorf(key, format string, args ...any) *Error {
	pos, path := o.pos, o.name
	if e := o.node.lookup(key); e != nil {
		pos = e.value.pos
	}
	if key != "" {
		path += "." + key
	}
	return NewError(pos, "%s: %s", path, fmt.Sprintf(format, args...))
}

// MarshalJSON writes the options with sorted keys, as the file and --set gave them.
func (o Options) MarshalJSON() ([]byte, error) {
	if o.node == nil || o.node.kind == nullKind {
		return []byte("{}"), nil
	}
	return json.Marshal(plain(o.node))
}

// plain is a node as the values that encoding/json sorts and writes.
func plain(n *node) any {
	switch n.kind {
	case boolKind:
		return n.b
	case intKind:
		return n.i
	case floatKind:
		if math.IsNaN(n.f) || math.IsInf(n.f, 0) {
			return n.text
		}
		return n.f
	case textKind:
		return n.text
	case listKind:
		out := make([]any, len(n.items))
		for i, item := range n.items {
			out[i] = plain(item)
		}
		return out
	case mapKind:
		out := map[string]any{}
		for _, p := range n.pairs {
			out[p.key] = plain(p.value)
		}
		return out
	}
	return nil
}

// stageEntry finds the entry of a list of stages that has the name, and its options. A stage that is there more than
// once is found by its label.
func stageEntry(list *node, name string) (entry, options *node) {
	for _, item := range list.items {
		if s, ok := stageOf(item); ok && s.Label() != s.Name && s.Label() == name {
			return item, item.pairs[0].value
		}
	}
	for _, item := range list.items {
		if s, ok := stageOf(item); ok && s.Label() != name && repeated(list, s.Name) {
			continue
		}
		if item.kind == textKind && item.text == name {
			return item, item
		}
		if item.kind == mapKind && len(item.pairs) == 1 && item.pairs[0].key == name {
			return item, item.pairs[0].value
		}
	}
	return nil, nil
}

// repeated reports whether a list has the stage more than once.
func repeated(list *node, name string) bool {
	n := 0
	for _, item := range list.items {
		if s, ok := stageOf(item); ok && s.Name == name {
			n++
		}
	}
	return n > 1
}

func stageNames(list *node) []string {
	var names []string
	for _, item := range list.items {
		if s, ok := stageOf(item); ok {
			names = append(names, s.Label())
		}
	}
	sort.Strings(names)
	return names
}
