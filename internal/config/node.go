package config

import (
	"fmt"
	"math"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// kind is the shape of a YAML node.
type kind int

const (
	nullKind kind = iota
	boolKind
	intKind
	floatKind
	textKind
	listKind
	mapKind
)

func (k kind) String() string {
	return [...]string{"nothing", "true or false", "a whole number", "a number", "a text", "a list", "a map"}[k]
}

// node is a YAML node without its syntax: what --set edits, what decoding reads, and where messages point.
type node struct {
	kind  kind
	pos   Position
	text  string // a scalar as it was written
	b     bool
	i     int64
	f     float64
	items []*node // of a list
	pairs []*pair // of a map, in order
}

// pair is one key of a map.
type pair struct {
	key   string
	pos   Position // of the key
	value *node
}

func (n *node) lookup(key string) *pair {
	if n == nil || n.kind != mapKind {
		return nil
	}
	for _, p := range n.pairs {
		if p.key == key {
			return p
		}
	}
	return nil
}

// describe names a node for messages: its kind, and a scalar's text.
func (n *node) describe() string {
	switch n.kind {
	case textKind, intKind, floatKind, boolKind:
		return fmt.Sprintf("%s (%s)", n.kind, clip(n.text, valueRunes))
	}
	return n.kind.String()
}

// valueRunes is how much of a value a message quotes.
const valueRunes = 60

// joined undoes what the YAML library does to a text such as host:7447 in a list in brackets: it makes a map of it,
// although no space stands behind the colon.
func (n *node) joined() *node {
	if n.kind != mapKind || len(n.pairs) != 1 {
		return n
	}
	p := n.pairs[0]
	if p.value.kind != intKind || p.value.pos.Line != p.pos.Line || p.value.pos.Column != p.pos.Column+len(p.key)+1 {
		return n
	}
	return &node{kind: textKind, pos: n.pos, text: p.key + ":" + p.value.text}
}

func clip(s string, most int) string {
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return s
}

// builder turns the YAML library's tree into ours.
type builder struct {
	src    *source
	flag   string // not "" when the text came from --set
	depth  int
	errors *Error
}

// maxDepth is how deep a file may nest; a real one needs four levels.
const maxDepth = 16

func (b *builder) position(n ast.Node) Position {
	p := Position{src: b.src, Flag: b.flag}
	if tk := n.GetToken(); tk != nil && tk.Position != nil && b.flag == "" {
		p.Line, p.Column = tk.Position.Line, tk.Position.Column
	}
	return p
}

func (b *builder) build(n ast.Node) *node {
	b.depth++
	defer func() { b.depth-- }()
	out := &node{pos: b.position(n)}
	if tk := n.GetToken(); tk != nil {
		out.text = tk.Value
	}
	if b.depth > maxDepth {
		b.errors.add(out.pos, fmt.Sprintf("nested deeper than %d levels", maxDepth), "")
		return out
	}
	switch n := n.(type) {
	case *ast.NullNode:
	case *ast.BoolNode:
		out.kind, out.b = boolKind, n.Value
	case *ast.IntegerNode:
		b.integer(out, n.Value)
	case *ast.FloatNode:
		out.kind, out.f = floatKind, n.Value
	case *ast.InfinityNode:
		out.kind, out.f = floatKind, n.Value
	case *ast.NanNode:
		out.kind, out.f = floatKind, math.NaN()
	case *ast.StringNode:
		out.kind, out.text = textKind, n.Value
	case *ast.LiteralNode:
		out.kind, out.text = textKind, n.Value.Value
	case *ast.SequenceNode:
		out.kind = listKind
		for _, item := range n.Values {
			out.items = append(out.items, b.build(item))
		}
	case *ast.MappingNode:
		out.kind = mapKind
		for _, pair := range n.Values {
			b.addPair(out, pair)
		}
		if len(out.pairs) > 0 {
			out.pos = out.pairs[0].pos
		}
	case *ast.MappingValueNode:
		out.kind = mapKind
		b.addPair(out, n)
		out.pos = out.pairs[0].pos
	default:
		b.errors.add(out.pos, fmt.Sprintf("YAML's %s is not supported here", strings.ToLower(n.Type().String())),
			"write the value out in plain YAML")
	}
	return out
}

func (b *builder) integer(out *node, v any) {
	out.kind = intKind
	switch v := v.(type) {
	case int64:
		out.i = v
	case uint64:
		if v > math.MaxInt64 {
			b.errors.add(out.pos, fmt.Sprintf("%d is too large", v),
				fmt.Sprintf("whole numbers end at %d", int64(math.MaxInt64)))
			return
		}
		out.i = int64(v)
	}
	out.f = float64(out.i)
}

func (b *builder) addPair(out *node, from *ast.MappingValueNode) {
	e := &pair{pos: b.position(from.Key)}
	switch key := from.Key.(type) {
	case *ast.StringNode:
		e.key = key.Value
	default:
		if tk := from.Key.GetToken(); tk != nil {
			e.key = tk.Value
		}
		if from.Key.IsMergeKey() {
			b.errors.add(e.pos, "YAML's merge key << is not supported here", "write the keys out")
		}
	}
	if first := out.lookup(e.key); first != nil {
		b.errors.add(e.pos, fmt.Sprintf("key %q is here a second time", e.key),
			fmt.Sprintf("the first one is in line %d; remove one of them", first.pos.Line))
	}
	e.value = b.build(from.Value)
	if e.value.kind == nullKind {
		e.value.pos = e.pos
	}
	out.pairs = append(out.pairs, e)
}
