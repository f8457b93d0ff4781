package weights

import (
	"fmt"
	"slices"
	"strings"
)

// Tensor is a weight by its dotted name, such as encoder.block.0.layer.0.SelfAttention.q.weight.
type Tensor struct {
	Name  string
	Bytes int64
}

// Module is a node of a model: what has a common prefix in the tensors' names. A tensor is a module without
// children.
type Module struct {
	Path     string // "" for the model as a whole
	Bytes    int64  // of everything below
	Children []*Module
	tensor   bool
}

// Tree makes the modules of a model from its tensors, in their order; tensors that belong to a module itself
// come before its children. A tensor that shares another's memory has 0 bytes.
func Tree(tensors []Tensor) (*Module, error) {
	root, found := &Module{}, map[string]*Module{}
	for _, t := range tensors {
		if t.Name == "" || t.Bytes < 0 || strings.HasPrefix(t.Name, ".") || strings.Contains(t.Name, "..") ||
			strings.HasSuffix(t.Name, ".") {
			return nil, fmt.Errorf("make modules: tensor %q of %d bytes", t.Name, t.Bytes)
		}
		at := root
		root.Bytes += t.Bytes
		for i := 0; i <= len(t.Name); i++ {
			if i < len(t.Name) && t.Name[i] != '.' {
				continue
			}
			path := t.Name[:i]
			next, known := found[path]
			switch {
			case !known:
				next = &Module{Path: path, tensor: i == len(t.Name)}
				found[path] = next
				at.Children = append(at.Children, next)
			case next.tensor || i == len(t.Name):
				return nil, fmt.Errorf("make modules: %q is a tensor and a module, or twice there", path)
			}
			next.Bytes += t.Bytes
			at = next
		}
	}
	root.order()
	return root, nil
}

// order puts tensors before modules, as placement looks at them.
func (m *Module) order() {
	slices.SortStableFunc(m.Children, func(a, b *Module) int {
		switch {
		case a.tensor == b.tensor:
			return 0
		case a.tensor:
			return -1
		}
		return 1
	})
	for _, c := range m.Children {
		c.order()
	}
}

// in reports whether path is m or lies below it.
func (m *Module) in(path string) bool {
	return path == m.Path || strings.HasPrefix(path, m.Path+".")
}

// inner reports whether m holds modules.
func (m *Module) inner() bool {
	return slices.ContainsFunc(m.Children, func(c *Module) bool { return !c.tensor })
}

// lastLevel appends the modules below m that hold tensors only.
func (m *Module) lastLevel(to []*Module) []*Module {
	if m.tensor {
		return to
	}
	if !m.inner() {
		return append(to, m)
	}
	for _, c := range m.Children {
		to = c.lastLevel(to)
	}
	return to
}
