package main

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// rest finds the tests of a module that `make test` skips or shortens: they call testing.Short, testaid.Long or testaid.Needs, directly
// or through functions of their package. It returns the names of the tests and the directories of their packages.
func rest(root string) (names, packages []string, err error) {
	err = filepath.WalkDir(root, func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if dir != root {
			_, err := os.Stat(filepath.Join(dir, "go.mod"))
			if err == nil || strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" {
				return filepath.SkipDir
			} else if !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		found, err := restOf(dir)
		if len(found) > 0 {
			names, packages = append(names, found...), append(packages, "./"+filepath.ToSlash(dir))
		}
		return err
	})
	slices.Sort(names)
	return slices.Compact(names), packages, err
}

// restOf finds the tests of one directory.
func restOf(dir string) (tests []string, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return nil, err
	}
	asks, uses := map[string]bool{}, map[string][]string{} // for each function: whether it calls one of these, and the names that it uses
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, decl := range parsed.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Body != nil {
				ast.Inspect(f.Body, func(n ast.Node) bool {
					switch n := n.(type) {
					case *ast.SelectorExpr:
						if x, ok := n.X.(*ast.Ident); ok && slices.Contains([]string{"testing.Short", "testaid.Long", "testaid.Needs"},
							x.Name+"."+n.Sel.Name) {
							asks[f.Name.Name] = true
						}
					case *ast.Ident:
						uses[f.Name.Name] = append(uses[f.Name.Name], n.Name)
					}
					return true
				})
			}
		}
	}
	for known := -1; known < len(asks); {
		known = len(asks)
		for name, used := range uses {
			if slices.ContainsFunc(used, func(other string) bool { return asks[other] }) {
				asks[name] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(asks)) {
		if strings.HasPrefix(name, "Test") && name != "TestMain" {
			tests = append(tests, name)
		}
	}
	return tests, nil
}
