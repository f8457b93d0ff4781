package document

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// kind is the shape of a YAML node.
type kind int

const (
	// NullKind and the other kinds are the values of Node.Kind. They decide which field of Node holds the value.
	NullKind kind = iota
	BoolKind
	IntKind
	FloatKind
	TextKind
	ListKind
	MapKind
)

func (k kind) String() string {
	return [...]string{"nothing", "true or false", "a whole number", "a number", "a text", "a list", "a map"}[k]
}

// Node is a YAML node with its position. --set changes nodes, decoding reads them, and messages show their positions.
type Node struct {
	Kind  kind
	Pos   Position
	Text  string // a scalar as written
	Bool  bool
	Int   int64
	Float float64
	Items []*Node // items of a list
	Pairs []*Pair // keys of a map, in order
}

// Pair is one key of a map.
type Pair struct {
	Key   string
	Pos   Position // position of the key
	Value *Node
}

// Lookup returns a key of a map, or nil if n has no such key or is no map.
func (n *Node) Lookup(key string) *Pair {
	if n == nil || n.Kind != MapKind {
		return nil
	}
	for _, p := range n.Pairs {
		if p.Key == key {
			return p
		}
	}
	return nil
}

// Describe describes a node for messages by its kind and, for a scalar, its text.
func (n *Node) Describe() string {
	switch n.Kind {
	case TextKind, IntKind, FloatKind, BoolKind:
		return fmt.Sprintf("%s (%s)", n.Kind, Clip(n.Text, ValueRunes))
	}
	return n.Kind.String()
}

// ValueRunes limits how many characters of a value a message quotes.
const ValueRunes = 60

// UndoMap returns the text of an item such as host:7447 in a list in brackets. The YAML library makes a map of it, although
// there is no space after the colon. UndoMap returns other nodes unchanged.
func (n *Node) UndoMap() *Node {
	if n.Kind != MapKind || len(n.Pairs) != 1 {
		return n
	}
	p := n.Pairs[0]
	if p.Value.Kind != IntKind || p.Value.Pos.Line != p.Pos.Line || p.Value.Pos.Column != p.Pos.Column+len(p.Key)+1 {
		return n
	}
	return &Node{Kind: TextKind, Pos: n.Pos, Text: p.Key + ":" + p.Value.Text}
}

// Clip shortens a text for a message to limit characters.
func Clip(s string, limit int) string {
	if runes := []rune(s); len(runes) > limit {
		return string(runes[:limit]) + "…"
	}
	return s
}

// builder converts the tree of the YAML library to nodes.
type builder struct {
	src    *Text
	flag   string // not "" when the text came from --set
	depth  int
	errors *Error
}

// maxDepth is the maximum nesting of a file. Real jobs need four levels.
const maxDepth = 16

// exponent matches a number that YAML 1.2 (10.3.2) and JSON know and the parser takes for a text: 1e-3, without a point.
var exponent = regexp.MustCompile(`^[-+]?[0-9]+[eE][-+]?[0-9]+$`)

func (b *builder) position(n ast.Node) Position {
	p := Position{Source: b.src, Flag: b.flag}
	if tk := n.GetToken(); tk != nil && tk.Position != nil && b.flag == "" {
		p.Line, p.Column = tk.Position.Line, tk.Position.Column
	}
	return p
}

func (b *builder) build(n ast.Node) *Node {
	b.depth++
	defer func() { b.depth-- }()
	out := &Node{Pos: b.position(n)}
	if tk := n.GetToken(); tk != nil {
		out.Text = tk.Value
	}
	if b.depth > maxDepth {
		b.errors.Add(out.Pos, fmt.Sprintf("nested deeper than %d levels", maxDepth), "")
		return out
	}
	switch n := n.(type) {
	case *ast.NullNode:
	case *ast.BoolNode:
		out.Kind, out.Bool = BoolKind, n.Value
	case *ast.IntegerNode:
		b.integer(out, n.Value)
	case *ast.FloatNode:
		out.Kind, out.Float = FloatKind, n.Value
	case *ast.InfinityNode:
		out.Kind, out.Float = FloatKind, n.Value
	case *ast.NanNode:
		out.Kind, out.Float = FloatKind, math.NaN()
	case *ast.StringNode:
		out.Kind, out.Text = TextKind, n.Value
		if tk := n.GetToken(); tk != nil && tk.Type == token.StringType && exponent.MatchString(n.Value) {
			if v, err := strconv.ParseFloat(n.Value, 64); err == nil {
				out.Kind, out.Float = FloatKind, v
			}
		}
	case *ast.LiteralNode:
		out.Kind, out.Text = TextKind, n.Value.Value
	case *ast.SequenceNode:
		out.Kind = ListKind
		for _, item := range n.Values {
			out.Items = append(out.Items, b.build(item))
		}
	case *ast.MappingNode:
		out.Kind = MapKind
		for _, pair := range n.Values {
			b.addPair(out, pair)
		}
		if len(out.Pairs) > 0 {
			out.Pos = out.Pairs[0].Pos
		}
	case *ast.MappingValueNode:
		out.Kind = MapKind
		b.addPair(out, n)
		out.Pos = out.Pairs[0].Pos
	default:
		b.errors.Add(out.Pos, fmt.Sprintf("YAML's %s is not supported here", strings.ToLower(n.Type().String())),
			"write the value out in plain YAML")
	}
	return out
}

func (b *builder) integer(out *Node, v any) {
	out.Kind = IntKind
	switch v := v.(type) {
	case int64:
		out.Int = v
	case uint64:
		if v > math.MaxInt64 {
			b.errors.Add(out.Pos, fmt.Sprintf("%d is too large", v),
				fmt.Sprintf("whole numbers end at %d", int64(math.MaxInt64)))
			return
		}
		out.Int = int64(v)
	}
	out.Float = float64(out.Int)
}

func (b *builder) addPair(out *Node, from *ast.MappingValueNode) {
	e := &Pair{Pos: b.position(from.Key)}
	switch key := from.Key.(type) {
	case *ast.StringNode:
		e.Key = key.Value
	default:
		if tk := from.Key.GetToken(); tk != nil {
			e.Key = tk.Value
		}
		if from.Key.IsMergeKey() {
			b.errors.Add(e.Pos, "YAML's merge key << is not supported here", "write the keys out")
		}
	}
	if first := out.Lookup(e.Key); first != nil {
		b.errors.Add(e.Pos, fmt.Sprintf("key %q is here a second time", e.Key),
			fmt.Sprintf("the first one is in line %d; remove one of them", first.Pos.Line))
	}
	e.Value = b.build(from.Value)
	if e.Value.Kind == NullKind {
		e.Value.Pos = e.Pos
	}
	out.Pairs = append(out.Pairs, e)
}
