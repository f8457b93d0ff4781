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

// Stage is an entry of the list: the name of a stage and its options. Only the stage itself knows what they mean.
type Stage struct {
	Name    string
	Options Options
}

// Label returns the option `name` of a stage if it has one, else the name of the stage. Stages that a job has more than once need
// the option.
func (s Stage) Label() string {
	if e := s.Options.node.Lookup("name"); e != nil && e.Value.Kind == document.TextKind && e.Value.Text != "" {
		return e.Value.Text
	}
	return s.Name
}

// Position returns the position of the stage in the file.
func (s Stage) Position() document.Position { return s.Options.pos }

// MarshalJSON encodes the stage as a map with one key.
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

// Options are the options of a stage in the file, not yet decoded.
type Options struct {
	name string
	pos  document.Position
	node *document.Node // nil if the stage has none
}

// Has reports whether the option is given.
func (o Options) Has(key string) bool { return o.node.Lookup(key) != nil }

// ParseOptions parses options from YAML text, for programs and tests that build stages without a file.
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

// Decode decodes the options into a struct whose fields have yaml tags. into is a pointer to it. Fields whose options are not given
// keep their values. Fields may have the types of this package, such as Duration, or schemas.AutoInt; structs may be embedded.
// The error is a *document.Error, which reports unknown keys and wrong types with their lines.
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

// Errorf returns an error at the position of an option. If key is "" or the option is not given, the error is at the position of
// the stage.
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

// MarshalJSON encodes the options as the file and --set give them, with sorted keys.
func (o Options) MarshalJSON() ([]byte, error) {
	if o.node == nil || o.node.Kind == document.NullKind {
		return []byte("{}"), nil
	}
	return json.Marshal(jsonValue(o.node))
}

// jsonValue converts a node to values that encoding/json can encode.
func jsonValue(n *document.Node) any {
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
			out[i] = jsonValue(item)
		}
		return out
	case document.MapKind:
		out := map[string]any{}
		for _, p := range n.Pairs {
			out[p.Key] = jsonValue(p.Value)
		}
		return out
	}
	return nil
}

// stageEntry returns the entry with this name in a list of stages, and its options. A stage that is in the list more than
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

// repeated reports whether a list contains the stage more than once.
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
