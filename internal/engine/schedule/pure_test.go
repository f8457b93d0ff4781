package schedule

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"latentbeam/stages"
	"latentbeam/stages/layout"
)

// TestScheduleIsPure: nothing here starts a goroutine or asks the machine for the time, so a plan that goes through the
// same code is the run.
func TestScheduleIsPure(t *testing.T) {
	files := token.NewFileSet()
	names, err := filepath.Glob("*.go")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		checkPure(t, files, f)
	}
}

// checkPure looks for what a file of the schedule must not have.
func checkPure(t *testing.T, files *token.FileSet, f *ast.File) {
	t.Helper()
	machine := []string{"Now", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Sleep", "Since", "Until"}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			t.Errorf("%s: it starts a goroutine", files.Position(n.Pos()))
		case *ast.SelectorExpr:
			if of, ok := n.X.(*ast.Ident); ok && of.Name == "time" && slices.Contains(machine, n.Sel.Name) {
				t.Errorf("%s: it uses time.%s; ask the clock", files.Position(n.Pos()), n.Sel.Name)
			}
		}
		return true
	})
}

// TestOutlooksShareTheirPredictions: outlooks of one job that are made at once, from one table, say what each says alone.
func TestOutlooksShareTheirPredictions(t *testing.T) {
	steps := []stages.Step{{Name: "denoise", Stage: shares{}}}
	foresight := func(p *Predictions, rows int) Foresight {
		return Foresight{Steps: steps, Pool: newFakePool(4), Devices: layout.Workers([]float64{1, 1, 1, 1}), Predictions: p,
			Rows: []Expected{{Row: rowOf(1), Rows: rows}, {Row: rowOf(2), Rows: 3}}}
	}
	want := map[int]float64{}
	for rows := 1; rows <= 8; rows++ {
		out, err := foresight(nil, rows).Outlook()
		if err != nil || out.Seconds <= 0 {
			t.Fatalf("%d rows: %+v, %v", rows, out, err)
		}
		want[rows] = out.Seconds
	}
	p := NewPredictions()
	var all sync.WaitGroup
	for rows := range want {
		all.Go(func() {
			if out, err := foresight(p, rows).Outlook(); err != nil || out.Seconds != want[rows] {
				t.Errorf("%d rows: %g s, %v; alone %g s", rows, out.Seconds, err, want[rows])
			}
		})
	}
	all.Wait()
}

// TestOutlooksTellStepsApart: rows of one size that take other numbers of steps share a table, and no times.
func TestOutlooksTellStepsApart(t *testing.T) {
	p := NewPredictions()
	times := map[int]float64{}
	for _, n := range []int{10, 100} {
		row := rowOf(1)
		row.NumInferenceSteps = n
		out, err := Foresight{Steps: []stages.Step{{Name: "denoise", Stage: shares{}}}, Pool: newFakePool(1), Predictions: p,
			Devices: layout.Workers([]float64{1}), Rows: []Expected{{Row: row, Rows: 1}}}.Outlook()
		if err != nil {
			t.Fatal(err)
		}
		times[n] = out.Seconds
	}
	if ratio := times[100] / times[10]; ratio < 5 {
		t.Errorf("100 steps take %v times as long as 10", ratio)
	}
}
