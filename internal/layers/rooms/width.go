package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"
)

// mostColumns is how wide a line of Go may be, with a tab of four columns.
const mostColumns = 140

// wideLines lists the lines of Go below dir that have more columns, as FILE:LINE, without generated files: those of the
// code and those of tests, where a row of a table of cases may be long.
func wideLines(dir string) (code, tests []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil || ast.IsGenerated(file) {
			return err
		}
		list := &code
		if strings.HasSuffix(path, "_test.go") {
			list = &tests
		}
		number := 0
		for line := range strings.Lines(string(text)) {
			number++
			if columns(strings.TrimSuffix(line, "\n")) > mostColumns {
				*list = append(*list, path+":"+strconv.Itoa(number))
			}
		}
		return nil
	})
	return code, tests, err
}

// columns is the width of a line.
func columns(line string) int { return utf8.RuneCountInString(line) + 3*strings.Count(line, "\t") }
