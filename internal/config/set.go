package config

import (
	"strings"
)

// set applies one "key=value" of --set to the tree before it is decoded, so that an override is checked
// exactly as a line of the file is.
func (c *Config) set(text string) *Error {
	flag := "--set " + text
	at := Position{Flag: flag}
	path, value, found := strings.Cut(text, "=")
	parts := strings.Split(path, ".")
	for _, p := range parts {
		if !found || p == "" {
			return NewError(at, "not of the form key=value").
				WithFix("write --set defaults.height=128 or --set stages.NAME.key=value")
		}
	}
	if value == "-" { // standard input, and no list of nothing
		value = `"-"`
	}
	v, problems := parse(&source{name: flag, text: []byte(value)}, flag)
	if problems != nil {
		return problems
	}
	if v == nil {
		v = &node{pos: at}
	}
	return assign(c.root, parts, v, flag)
}

// assign puts v at the path below n and makes the maps on the way that are missing.
func assign(n *node, path []string, v *node, flag string) *Error {
	at := Position{Flag: flag}
	for i, part := range path {
		last := i == len(path)-1
		if n.kind == nullKind {
			n.kind = mapKind
		}
		switch n.kind {
		case mapKind:
			e := n.lookup(part)
			if e == nil {
				e = &pair{key: part, pos: at, value: &node{pos: at}}
				n.pairs = append(n.pairs, e)
			}
			if last {
				if was := e.value.pos; was.Line > 0 {
					at.over, v.pos.over = &was, &was
				}
				e.pos, e.value = at, v
				return nil
			}
			n = e.value
		case listKind:
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
			return NewError(at, "%s is %s and has no key %q", where, n.describe(), part).
				WithFix("set %s as a whole, or write it as a map in the file", where)
		}
	}
	return nil
}

// stageOptions finds the options of the one stage with the name; a stage given by its bare name gets a map.
func stageOptions(list *node, name string, whole bool, at Position) (*node, *Error) {
	item, options := stageEntry(list, name)
	if item == nil {
		names := stageNames(list)
		return nil, NewError(at, "there is no stage %q in the list", name).WithFix("%s", suggest(name, names))
	}
	if item == options { // a bare name
		options = &node{pos: item.pos}
		*item = node{kind: mapKind, pos: item.pos, pairs: []*pair{{key: name, pos: item.pos, value: options}}}
	}
	return options, nil
}
