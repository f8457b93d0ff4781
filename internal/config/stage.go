package config

import (
	"encoding/json"
	"fmt"
	"latentbeam/internal/config/document"
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
	if e := s.Options.node.Lookup("name"); e != nil && e.Value.Kind == document.TextKind && e.Value.Text != "" {
		return e.Value.Text
	}
	return s.Name
}

// Position is where the stage stands in the file.
func (s Stage) Position() document.Position { return s.Options.pos }

// MarshalJSON writes the stage as a map of one key.
func (s Stage) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]Options{s.Name: s.Options})
}

const stageForm = "a stage's name, or a map of one stage's name to its options"

func (l *Stages) fromNode(n *document.Node) (string, bool) {
	const wanted = "a list of stages"
	if n.Kind != document.ListKind {
		return wanted, false
	}
	for _, item := range n.Items {
		s, ok := stageOf(item)
		if !ok {
			s.Options.pos = item.Pos // reported by validate, which names the entry
		}
		*l = append(*l, s)
	}
	return wanted, true
}

func stageOf(item *document.Node) (Stage, bool) {
	switch {
	case item.Kind == document.TextKind && item.Text != "":
		return Stage{Name: item.Text, Options: Options{name: item.Text, pos: item.Pos}}, true
	case item.Kind == document.MapKind && len(item.Pairs) == 1:
		p := item.Pairs[0]
		if p.Value.Kind == document.MapKind || p.Value.Kind == document.NullKind {
			return Stage{Name: p.Key, Options: Options{name: p.Key, pos: p.Pos, node: p.Value}}, true
		}
	}
	return Stage{}, false
}

// Options is a stage's part of the file before the stage has read it.
type Options struct {
	name string
	pos  document.Position
	node *document.Node // nil where the stage has none
}

// Has reports whether the file gives the option.
func (o Options) Has(key string) bool { return o.node.Lookup(key) != nil }

// ParseOptions reads options from YAML text, for programs and tests that build stages without a file.
func ParseOptions(name, text string) (Options, error) {
	src := &document.Text{Name: name, Text: []byte(text)}
	n, problems := document.Parse(src, "")
	if problems != nil {
		return Options{}, problems
	}
	o := Options{name: name, pos: document.Position{Source: src, Line: 1}, node: n}
	if n != nil && n.Kind != document.MapKind && n.Kind != document.NullKind {
		return Options{}, document.NewError(n.Pos, "options must be a map of keys and values, not %s", n.Describe())
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
	problems := &document.Error{}
	d := decoder{errors: problems}
	d.decode(o.node, v.Elem(), o.name)
	return problems.OrNil()
}

// Errorf reports a problem with one option; "" as the key means the stage as a whole.
func (o Options) Errorf(key, format string, args ...any) *document.Error {
	pos, path := o.pos, o.name
	if e := o.node.Lookup(key); e != nil {
		pos = e.Value.Pos
	}
	if key != "" {
		path += "." + key
	}
	return document.NewError(pos, "%s: %s", path, fmt.Sprintf(format, args...))
}

// MarshalJSON writes the options with sorted keys, as the file and --set gave them.
func (o Options) MarshalJSON() ([]byte, error) {
	if o.node == nil || o.node.Kind == document.NullKind {
		return []byte("{}"), nil
	}
	return json.Marshal(plain(o.node))
}

// plain is a node as the values that encoding/json sorts and writes.
func plain(n *document.Node) any {
	switch n.Kind {
	case document.BoolKind:
		return n.Bool
	case document.IntKind:
		return n.Int
	case document.FloatKind:
		if math.IsNaN(n.Float) || math.IsInf(n.Float, 0) {
			return n.Text
		}
		return n.Float
	case document.TextKind:
		return n.Text
	case document.ListKind:
		out := make([]any, len(n.Items))
		for i, item := range n.Items {
			out[i] = plain(item)
		}
		return out
	case document.MapKind:
		out := map[string]any{}
		for _, p := range n.Pairs {
			out[p.Key] = plain(p.Value)
		}
		return out
	}
	return nil
}

// stageEntry finds the entry of a list of stages that has the name, and its options. A stage that is there more than
// once is found by its label.
func stageEntry(list *document.Node, name string) (entry, options *document.Node) {
	for _, item := range list.Items {
		if s, ok := stageOf(item); ok && s.Label() != s.Name && s.Label() == name {
			return item, item.Pairs[0].Value
		}
	}
	for _, item := range list.Items {
		if s, ok := stageOf(item); ok && s.Label() != name && repeated(list, s.Name) {
			continue
		}
		if item.Kind == document.TextKind && item.Text == name {
			return item, item
		}
		if item.Kind == document.MapKind && len(item.Pairs) == 1 && item.Pairs[0].Key == name {
			return item, item.Pairs[0].Value
		}
	}
	return nil, nil
}

// repeated reports whether a list has the stage more than once.
func repeated(list *document.Node, name string) bool {
	n := 0
	for _, item := range list.Items {
		if s, ok := stageOf(item); ok && s.Name == name {
			n++
		}
	}
	return n > 1
}

func stageNames(list *document.Node) []string {
	var names []string
	for _, item := range list.Items {
		if s, ok := stageOf(item); ok {
			names = append(names, s.Label())
		}
	}
	sort.Strings(names)
	return names
}
