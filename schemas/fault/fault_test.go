package fault

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestClassAndExitCode(t *testing.T) {
	base := errors.New("boom")
	cases := []struct {
		name  string
		err   error
		class Class
		exit  int
	}{
		{"nil", nil, ClassRow, ExitDone},
		{"plain", base, ClassRow, ExitFatal},
		{"row", Row(base), ClassRow, ExitFatal},
		{"retry", Retry(base), ClassRetry, ExitTryAgain},
		{"fatal", Fatal(base), ClassFatal, ExitFatal},
		{"usage", Usage(base), ClassFatal, ExitUsage},
		{"try again", TryAgain(base), ClassFatal, ExitTryAgain},
		{"failures", Failures(base), ClassRow, ExitFailures},
		{"wrapped", fmt.Errorf("decode: %w", Retry(base)), ClassRetry, ExitTryAgain},
		{"outermost wins", Row(fmt.Errorf("exhausted: %w", Retry(base))), ClassRow, ExitFatal},
		{"gravest of a join", errors.Join(Row(base), TryAgain(base), Retry(base)), ClassFatal, ExitTryAgain},
		{"interrupt", fmt.Errorf("run: %w", context.Canceled), ClassFatal, ExitInterrupted},
		{"interrupt marked as retry", Retry(context.Canceled), ClassRetry, ExitInterrupted},
		{"deadline", context.DeadlineExceeded, ClassRetry, ExitTryAgain},
	}
	for _, c := range cases {
		if got := ClassOf(c.err); got != c.class {
			t.Errorf("%s: class %v, want %v", c.name, got, c.class)
		}
		if got := ExitCode(c.err); got != c.exit {
			t.Errorf("%s: exit code %d, want %d", c.name, got, c.exit)
		}
	}
	if Row(nil) != nil || Retry(nil) != nil || Fatal(nil) != nil {
		t.Error("wrapping nil is not nil")
	}
	if err := Fatal(base); !errors.Is(err, base) || err.Error() != "boom" {
		t.Errorf("wrapping changed the error: %v", err)
	}
}

// TestHook: the hook is called at a point while it is set, and no longer after SetHook(nil).
func TestHook(t *testing.T) {
	var seen []string
	SetHook(func(name string) { seen = append(seen, name) })
	Point(StorePutRenamed)
	SetHook(nil)
	Point(StorePutRenamed)
	if !slices.Equal(seen, []string{StorePutRenamed}) {
		t.Errorf("the hook was called for %v, want one call for %s", seen, StorePutRenamed)
	}
}

// constants reads points.go and returns the text of each fault point by its identifier.
func constants(t *testing.T) map[string]string {
	file, err := parser.ParseFile(token.NewFileSet(), "points.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		out[spec.Names[0].Name] = text
		return true
	})
	return out
}

// TestEveryPointIsListedAndCalled reads the source of the whole module: the argument of each
// fault.Point is a constant of points.go, each constant is in Names, and none is unused.
func TestEveryPointIsListedAndCalled(t *testing.T) {
	known, names := constants(t), Names()
	if len(known) != len(names) {
		t.Errorf("points.go has %d constants, Names returns %d", len(known), len(names))
	}
	for ident, text := range known {
		if !slices.Contains(names, text) {
			t.Errorf("%s is not in Names", ident)
		}
	}
	calls := map[string]int{}
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == ".git"):
			return filepath.SkipDir
		case !d.IsDir() && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
			countPoints(t, path, known, calls)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for ident := range known {
		if calls[ident] == 0 {
			t.Errorf("no code calls fault.Point(fault.%s)", ident)
		}
	}
}

// countPoints adds the calls of fault.Point in a source file to calls, counted by the constant that is their argument. An argument that is
// not among the known constants is an error.
func countPoints(t *testing.T, path string, known map[string]string, calls map[string]int) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Logf("skipped, does not parse: %v", err)
		return
	}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || !isFault(call.Fun, "Point") || len(call.Args) != 1 {
			return true
		}
		arg, ok := call.Args[0].(*ast.SelectorExpr)
		if !ok || known[arg.Sel.Name] == "" {
			t.Errorf("%s: the argument of fault.Point is not a constant of schemas/fault/points.go", path)
			return true
		}
		calls[arg.Sel.Name]++
		return true
	})
}

// isFault reports whether an expression is fault.NAME.
func isFault(e ast.Expr, name string) bool {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != name {
		return false
	}
	pkg, ok := sel.X.(*ast.Ident)
	return ok && pkg.Name == "fault"
}

func BenchmarkPoint(b *testing.B) {
	for b.Loop() {
		Point(StorePutRenamed)
	}
}
