package config

import (
	"latentbeam/internal/config/document"
	"reflect"
)

// wholeModel reports whether the job names a whole model. Its model_index.json can then decide the stages.
func (c *Config) wholeModel() bool {
	e := c.root.Lookup("model")
	if e != nil && e.Value.Kind == document.MapKind {
		e = e.Value.Lookup("path")
	}
	return e != nil && e.Value.Kind == document.TextKind && e.Value.Text != "" && e.Value.Text != "none"
}

// Complete sets the stages of a job that lists none. list is a YAML list, the stages of the job's model. Errors about these stages
// point to the key model of the job. A job that lists stages is not changed.
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
	addMissing(c.root, under)
	problems = &document.Error{}
	for _, set := range c.laterSets {
		if err := c.set(set); err != nil {
			problems.Problems = append(problems.Problems, err.Problems...)
		}
	}
	c.laterSets = nil
	fresh := newConfig()
	d := decoder{errors: problems}
	fresh.src, fresh.root = c.src, c.root
	d.decode(c.root, reflect.ValueOf(fresh).Elem(), "")
	v := validator{config: fresh, errors: problems, decodeProblems: len(problems.Problems)}
	v.validateStages()
	c.Stages = fresh.Stages
	return problems.OrNil()
}

// relocate sets the position of a node and of all nodes below it.
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
