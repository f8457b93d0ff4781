package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const root = "../../.."

// testCode returns the text of all test files of a package.
func testCode(t *testing.T, room string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, room, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has %d test files, %v", room, len(files), err)
	}
	var all strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// body returns the code of a test function.
func body(t *testing.T, room, test string) string {
	t.Helper()
	_, after, found := strings.Cut(testCode(t, room), "func "+test+"(t *testing.T)")
	text, _, _ := strings.Cut(after, "\n}\n")
	if !found {
		t.Errorf("%s has no test %s", room, test)
	}
	return text
}

// TestTable: each promise has a proof and a test that make test does not skip, the tests of each proof exist and print a figure, and the
// budgets of processor time fit into a night.
func TestTable(t *testing.T) {
	proved := map[string]bool{}
	all := time.Duration(len(targets)) * fuzzBudget
	for _, p := range proofs {
		proved[p.promise] = true
		if p.budget == 0 {
			t.Errorf("%s has no budget", p.key())
		}
		if !p.only {
			all += p.budget
		}
		text := testCode(t, p.room)
		for name := range strings.SplitSeq(p.tests, "|") {
			if !strings.Contains(text, "func "+name+"(t *testing.T)") {
				t.Errorf("%s has no test %s", p.room, name)
			}
		}
		if !strings.Contains(text, `"`+p.promise+": ") && !strings.HasPrefix(p.room, "internal/storage/store/") { // the tests of stores are in storetest
			t.Errorf("no test of %s prints a figure for %s", p.room, p.promise)
		}
		for name := range p.counts {
			if !strings.Contains(text, name) && name != "LATENTBEAM_STORE_SCHEDULES" && name != "LATENTBEAM_HISTORIES" {
				t.Errorf("no test of %s reads %s", p.room, name)
			}
		}
	}
	for i, p := range promises {
		if strings.Contains(body(t, p.room, p.test), "testaid.Long(") {
			t.Errorf("%s %s calls testaid.Long, so make test skips it and does not show %s", p.room, p.test, p.name)
		}
		if !slices.ContainsFunc(proofs, func(o proof) bool {
			return o.promise == p.name && o.room == p.room && !o.cuda && slices.Contains(strings.Split(o.tests, "|"), p.test)
		}) {
			t.Errorf("%s %s is in promises, but no proof of %s has it", p.room, p.test, p.name)
		}
		if p.name != fmt.Sprint("P", i+1) || !proved[p.name] {
			t.Errorf("promise %d is called %s (has a proof: %v), want P%d with a proof", i+1, p.name, proved[p.name], i+1)
		}
	}
	if all > night {
		t.Errorf("all proofs take %v of processor time, more than the %v of a night", all, night)
	}
	t.Logf("all proofs take at most %v of processor time", all)
}

// TestTargets: the table lists exactly the fuzz targets of the module.
func TestTargets(t *testing.T) {
	named := regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`)
	var found, listed []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		room, _ := filepath.Rel(root, filepath.Dir(path))
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			found = append(found, filepath.ToSlash(room)+" "+m[1])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range targets {
		listed = append(listed, f.room+" "+f.name)
	}
	slices.Sort(found)
	slices.Sort(listed)
	if !slices.Equal(found, listed) {
		t.Errorf("the code has the fuzz targets\n%s\nthe table lists\n%s", strings.Join(found, "\n"), strings.Join(listed, "\n"))
	}
}

// TestReport: a report that was written can be read again (a | in a figure becomes a /), and docs/reliability.md lists the proofs of the table.
func TestReport(t *testing.T) {
	r := report{proofs[0].key(): {"10 | of 10", "2026-01-02", "abc", "3s", "4s"}}
	path := filepath.Join(t.TempDir(), "report.md")
	if err := os.WriteFile(path, []byte(r.text()), 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := readReport(path)
	if err != nil || again[proofs[0].key()] != (proofRow{"10 / of 10", "2026-01-02", "abc", "3s", "4s"}) {
		t.Errorf("got the report %+v, %v", again, err)
	}
	if again[proofs[1].key()].figure != "not run yet" {
		t.Errorf("a proof without a figure: got %+v, want %q", again[proofs[1].key()], "not run yet")
	}
	old, err := readReport(filepath.Join(root, "docs", "reliability.md"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "reliability.md"))
	if err != nil || old.text() != string(text) {
		t.Error("docs/reliability.md is not what the table makes of its own figures: go run ./internal/dev/proofs -only none")
	}
}
