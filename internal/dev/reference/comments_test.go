package reference

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
)

const module = "latentbeam"

// comments finds the comments of types and their fields in the source code.
type comments struct {
	root     string
	packages map[string]map[string]*ast.TypeSpec // import path -> name of a type
	docs     map[*ast.TypeSpec]string
}

func newComments(root string) *comments {
	return &comments{root, map[string]map[string]*ast.TypeSpec{}, map[*ast.TypeSpec]string{}}
}

// load reads the types of a package.
func (c *comments) load(path string) (map[string]*ast.TypeSpec, error) {
	if types, ok := c.packages[path]; ok {
		return types, nil
	}
	dir := filepath.Join(c.root, strings.TrimPrefix(strings.TrimPrefix(path, module), "/"))
	types := map[string]*ast.TypeSpec{}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range g.Specs {
				if t, ok := s.(*ast.TypeSpec); ok {
					types[t.Name.Name] = t
					c.docs[t] = text(g.Doc)
				}
			}
		}
	}
	c.packages[path] = types
	return types, nil
}

// field returns the comments of a field of a struct: the one above it and the one after it.
func (c *comments) field(t reflect.Type, name string) (string, error) {
	types, err := c.load(t.PkgPath())
	if err != nil {
		return "", err
	}
	spec, ok := types[t.Name()]
	if !ok {
		return "", fmt.Errorf("%s has no source", t)
	}
	s, ok := spec.Type.(*ast.StructType)
	if !ok {
		return "", fmt.Errorf("%s is no struct", t)
	}
	for _, f := range s.Fields.List {
		for _, n := range f.Names {
			if n.Name == name {
				return strings.TrimSpace(text(f.Doc) + " " + text(f.Comment)), nil
			}
		}
	}
	return "", fmt.Errorf("%s has no field %s", t, name)
}

// text returns a comment as one line.
func text(g *ast.CommentGroup) string {
	if g == nil {
		return ""
	}
	return strings.ReplaceAll(strings.Join(strings.Fields(g.Text()), " "), "|", "\\|")
}
