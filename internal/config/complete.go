package config

import (
	"latentbeam/internal/config/document"
	"reflect"
)

// wholeModel reports whether the job names a whole model, whose model_index.json can say what the stages are.
func (c *Config) wholeModel() bool {
	e := c.root.Lookup("model")
	if e != nil && e.Value.Kind == document.MapKind {
		e = e.Value.Lookup("path")
	}
	return e != nil && e.Value.Kind == document.TextKind && e.Value.Text != "" && e.Value.Text != "none"
}

// Complete gives a job without stages those of its model, a YAML list. Messages about them point to the model in the job. A job
// that lists stages keeps them.
func (c *Config) Complete(list string) error {
	if c.Given("stages") {
		return nil
	}
	under, problems := document.Parse(&document.Text{Name: "stages of the model", Text: []byte("stages: " + list + "\n")}, "")
	if problems != nil {
		return problems
	}
	if e := c.root.Lookup("model"); e != nil {
		relocate(under, e.Value.Pos)
	}
	underlay(c.root, under)
	problems = &document.Error{}
	for _, set := range c.later {
		if err := c.set(set); err != nil {
			problems.Problems = append(problems.Problems, err.Problems...)
		}
	}
	c.later = nil
	fresh := newConfig()
	d := decoder{errors: problems}
	fresh.src, fresh.root = c.src, c.root
	d.decode(c.root, reflect.ValueOf(fresh).Elem(), "")
	v := validator{config: fresh, errors: problems, decoded: len(problems.Problems)}
	v.stages()
	c.Stages = fresh.Stages
	return problems.OrNil()
}

// relocate gives a node, and all in it, one position.
func relocate(n *document.Node, pos document.Position) {
	n.Pos = pos
	for _, item := range n.Items {
		relocate(item, pos)
	}
	for _, p := range n.Pairs {
		p.Pos = pos
		relocate(p.Value, pos)
	}
}
