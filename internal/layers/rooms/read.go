package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// tree is the code of a checkout, without tests and generated files.
type tree struct {
	fset       *token.FileSet
	lines      map[string]int      // by room
	types      map[string][]string // rooms that declare a type of this name
	interfaces map[string]bool     // "room.Name"
	files      []file
}

type file struct {
	*ast.File
	room    string
	imports map[string]string // room by the name that the file has for it
}

// module is the import path before those of the rooms.
const module = "latentbeam/"

// read parses all files below dir.
func read(dir string) (*tree, error) {
	t := &tree{fset: token.NewFileSet(), lines: map[string]int{}, types: map[string][]string{},
		interfaces: map[string]bool{}}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		rel := filepath.ToSlash(strings.TrimPrefix(strings.TrimPrefix(name, dir), string(filepath.Separator)))
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && name != dir || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		return t.add(name, path.Dir(rel))
	})
	return t, err
}

// add counts one file of a room.
func (t *tree) add(name, room string) error {
	f, err := parser.ParseFile(t.fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	if ast.IsGenerated(f) {
		return nil
	}
	t.lines[room] += t.fset.File(f.Pos()).LineCount()
	imports := map[string]string{}
	for _, i := range f.Imports {
		to, _ := strconv.Unquote(i.Path.Value)
		short := path.Base(to)
		if i.Name != nil {
			short = i.Name.Name
		}
		imports[short] = strings.TrimPrefix(to, module)
	}
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, s := range g.Specs {
			if s, ok := s.(*ast.TypeSpec); ok && !s.Assign.IsValid() {
				t.types[s.Name.Name] = append(t.types[s.Name.Name], room)
				_, isInterface := s.Type.(*ast.InterfaceType)
				t.interfaces[room+"."+s.Name.Name] = isInterface
			}
		}
	}
	t.files = append(t.files, file{f, room, imports})
	return nil
}

// probes lists where a value is asked whether it also is an interface of this module or one without a name, by
// assertions, type switches and kernels.As.
func (t *tree) probes() map[string][]string {
	found := map[string][]string{}
	for _, f := range t.files {
		note := func(e ast.Expr) {
			if name := t.probed(f, e); name != "" {
				at := t.fset.Position(e.Pos())
				found[name] = append(found[name], fmt.Sprintf("%s/%s:%d", f.room, filepath.Base(at.Filename), at.Line))
			}
		}
		ast.Inspect(f.File, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeAssertExpr:
				note(n.Type)
			case *ast.TypeSwitchStmt:
				for _, c := range n.Body.List {
					for _, e := range c.(*ast.CaseClause).List {
						note(e)
					}
				}
			case *ast.IndexExpr:
				if as, ok := n.X.(*ast.SelectorExpr); ok && as.Sel.Name == "As" {
					note(n.Index)
				}
			}
			return true
		})
	}
	return found
}

// probed names the interface that e is, "" for everything else.
func (t *tree) probed(f file, e ast.Expr) string {
	var name string
	switch e := e.(type) {
	case *ast.Ident:
		name = f.room + "." + e.Name
	case *ast.SelectorExpr:
		if p, ok := e.X.(*ast.Ident); ok {
			name = f.imports[p.Name] + "." + e.Sel.Name
		}
	case *ast.InterfaceType:
		var methods bytes.Buffer
		for _, m := range e.Methods.List {
			for _, n := range m.Names {
				fmt.Fprintf(&methods, " %s", n.Name)
			}
		}
		return "interface{" + methods.String() + " }"
	}
	if t.interfaces[name] {
		return name
	}
	return ""
}
