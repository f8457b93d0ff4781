package config

import (
	"latentbeam/internal/config/document"
	"strings"
)

// set applies a "key=value" of --set to the tree before decoding, so that an override is checked like a line of the
// file.
func (c *Config) set(text string) *document.Error {
	flag := "--set " + text
	at := document.Position{Flag: flag}
	path, value, found := strings.Cut(text, "=")
	parts := strings.Split(path, ".")
	for _, p := range parts {
		if !found || p == "" {
			return document.NewError(at, "not of the form key=value").
				WithFix("write --set defaults.height=128 or --set stages.NAME.key=value")
		}
	}
	if value == "-" { // standard input; YAML would read an empty list
		value = `"-"`
	}
	v, problems := document.Parse(&document.Text{Name: flag, Text: []byte(value)}, flag)
	if problems != nil {
		return problems
	}
	if v == nil {
		v = &document.Node{Pos: at}
	}
	return assign(c.root, parts, v, flag)
}

// assign puts v at the path below n. It creates missing maps.
func assign(n *document.Node, path []string, v *document.Node, flag string) *document.Error {
	at := document.Position{Flag: flag}
	for i, part := range path {
		last := i == len(path)-1
		if n.Kind == document.NullKind {
			n.Kind = document.MapKind
		}
		switch n.Kind {
		case document.MapKind:
			e := n.Lookup(part)
			if e == nil {
				e = &document.Pair{Key: part, Pos: at, Value: &document.Node{Pos: at}}
				n.Pairs = append(n.Pairs, e)
			}
			if last {
				if was := e.Value.Pos; was.Line > 0 {
					at.Replaced, v.Pos.Replaced = &was, &was
				}
				e.Pos, e.Value = at, v
				return nil
			}
			n = e.Value
		case document.ListKind:
			options, err := stageOptions(n, part, last, at)
			if err != nil {
				return err
			}
			if last {
				*options = *v
				return nil
			}
			n = options
		default:
			where := strings.Join(path[:i], ".")
			return document.NewError(at, "%s is %s and has no key %q", where, n.Describe(), part).
				WithFix("set %s as a whole, or write it as a map in the file", where)
		}
	}
	return nil
}

// stageOptions returns the options of the named stage. A stage that is only a name becomes a map with options.
func stageOptions(list *document.Node, name string, whole bool, at document.Position) (*document.Node, *document.Error) {
	item, options := stageEntry(list, name)
	if item == nil {
		names := stageNames(list)
		return nil, document.NewError(at, "there is no stage %q in the list", name).WithFix("%s", suggestName(name, names))
	}
	if item == options { // a bare name
		options = &document.Node{Pos: item.Pos}
		*item = document.Node{Kind: document.MapKind, Pos: item.Pos, Pairs: []*document.Pair{{Key: name, Pos: item.Pos, Value: options}}}
	}
	return options, nil
}
