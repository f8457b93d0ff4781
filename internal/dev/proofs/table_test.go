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

// tests returns the text of the test files of a package.
func tests(t *testing.T, room string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, room, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has %d files of tests, %v", room, len(files), err)
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

// body returns the text of a test.
func body(t *testing.T, room, test string) string {
	t.Helper()
	_, after, found := strings.Cut(tests(t, room), "func "+test+"(t *testing.T)")
	text, _, _ := strings.Cut(after, "\n}\n")
	if !found {
		t.Errorf("%s has no test %s", room, test)
	}
	return text
}

// TestTable: each promise has a proof, the tests of each proof exist and print a figure, and the budgets fit into a night.
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
		text := tests(t, p.room)
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
			t.Errorf("%s %s, which shows %s in make test, is skipped there", p.room, p.test, p.name)
		}
		if !slices.ContainsFunc(proofs, func(o proof) bool {
			return o.promise == p.name && o.room == p.room && !o.cuda && slices.Contains(strings.Split(o.tests, "|"), p.test)
		}) {
			t.Errorf("%s %s is no proof of %s", p.room, p.test, p.name)
		}
		if p.name != fmt.Sprint("P", i+1) || !proved[p.name] {
			t.Errorf("promise %d is called %s, proved: %v", i+1, p.name, proved[p.name])
		}
	}
	if all > night {
		t.Errorf("a night takes %v of processors, more than %v", all, night)
	}
	t.Logf("a night takes %v of processors at most", all)
}

// TestTargets: the table has all fuzz targets of the module, and each has a committed corpus or seeds in its code.
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
		t.Errorf("fuzz targets\n%s\nlisted are\n%s", strings.Join(found, "\n"), strings.Join(listed, "\n"))
	}
}

// TestReport: a written report can be read again, and docs/reliability.md lists the proofs of the table.
func TestReport(t *testing.T) {
	r := report{proofs[0].key(): {"10 | of 10", "2026-01-02", "abc", "3s", "4s"}}
	path := filepath.Join(t.TempDir(), "report.md")
	if err := os.WriteFile(path, []byte(r.text()), 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := readReport(path)
	if err != nil || again[proofs[0].key()] != (proofRow{"10 / of 10", "2026-01-02", "abc", "3s", "4s"}) {
		t.Errorf("%+v, %v", again, err)
	}
	if again[proofs[1].key()].figure != "not run yet" {
		t.Errorf("%+v", again[proofs[1].key()])
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
