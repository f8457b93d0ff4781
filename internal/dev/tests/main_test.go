package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// events are lines of go test -json. One test passes but skips a part, others are skipped, fail or time out. One package comes from the cache,
// others fail, do not build or have no tests.
const events = `{"Action":"run","Package":"latentbeam/a","Test":"TestGood"}
{"Action":"output","Package":"latentbeam/a","Test":"TestGood","Output":"=== RUN   TestGood\n"}
{"Action":"output","Package":"latentbeam/a","Test":"TestGood","Output":"    a_test.go:7: P3: 100 rows\n"}
{"Action":"output","Package":"latentbeam/a","Test":"TestGood","Output":"    a_test.go:8: NOT TESTED: hosts of their own\n"}
{"Action":"output","Package":"latentbeam/a","Test":"TestGood","Output":"--- PASS: TestGood (0.00s)\n"}
{"Action":"pass","Package":"latentbeam/a","Test":"TestGood","Elapsed":0}
{"Action":"output","Package":"latentbeam/a","Test":"TestLong","Output":"=== RUN   TestLong\n"}
{"Action":"output","Package":"latentbeam/a","Test":"TestLong","Output":"    a_test.go:9: make check runs it: kills processes\n"}
{"Action":"output","Package":"latentbeam/a","Test":"TestLong","Output":"--- SKIP: TestLong (0.00s)\n"}
{"Action":"skip","Package":"latentbeam/a","Test":"TestLong","Elapsed":0}
{"Action":"output","Package":"latentbeam/a","Output":"PASS\n"}
{"Action":"output","Package":"latentbeam/a","Output":"ok  \tlatentbeam/a\t(cached)\n"}
{"Action":"pass","Package":"latentbeam/a","Elapsed":0.1}
{"Action":"output","Package":"latentbeam/b","Test":"TestBad/one","Output":"=== RUN   TestBad/one\n"}
{"Action":"output","Package":"latentbeam/b","Test":"TestBad/one","Output":"    b_test.go:3: 2, want 3\n"}
{"Action":"output","Package":"latentbeam/b","Test":"TestBad/one","Output":"    --- FAIL: TestBad/one (0.00s)\n"}
{"Action":"fail","Package":"latentbeam/b","Test":"TestBad/one","Elapsed":0}
{"Action":"output","Package":"latentbeam/b","Output":"FAIL\n"}
{"Action":"output","Package":"latentbeam/b","Output":"FAIL\tlatentbeam/b\t0.100s\n"}
{"Action":"fail","Package":"latentbeam/b","Elapsed":0.1}
{"ImportPath":"latentbeam/c","Action":"build-output","Output":"c/c.go:1: undefined: x\n"}
{"Action":"output","Package":"latentbeam/d","Output":"?   \tlatentbeam/d\t[no test files]\n"}
{"Action":"skip","Package":"latentbeam/d","Elapsed":0}
{"Action":"output","Package":"latentbeam/e","Test":"TestHangs","Output":"panic: test timed out\n"}
{"Action":"fail","Package":"latentbeam/e","Test":"TestHangs","Elapsed":0}
`

// TestRest: rest finds the tests that may be skipped or shortened, because they or a function that they call use testaid.Long, testaid.Needs
// or testing.Short. It finds no others, and none in other modules or in testdata.
func TestRest(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"a/a_test.go": "package a\nfunc TestLong(t *testing.T) { testaid.Long(t, \"long\") }\nfunc TestQuick(t *testing.T) { quick(t) }\n" +
			"func quick(t *testing.T) { t.Log(\"testing.Short\") }\n",
		"a/b_test.go":          "package a_test\nfunc TestByHelper(t *testing.T) { need(t) }\nfunc need(t *testing.T) { tools(t) }\n",
		"a/c_test.go":          "package a_test\nfunc tools(t *testing.T) { testaid.Needs(t, \"ffmpeg\") }\n",
		"b/b_test.go":          "package b\nfunc TestShort(t *testing.T) { if !testing.Short() { t.Log() } }\n",
		"c/c_test.go":          "package c\nfunc TestLong(t *testing.T) {}\n",
		"d/go.mod":             "module d\n",
		"d/d_test.go":          "package d\nfunc TestOther(t *testing.T) { testing.Short() }\n",
		"e/testdata/e_test.go": "no Go",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(root)
	names, packages, err := rest(".")
	if err != nil || !slices.Equal(names, []string{"TestByHelper", "TestLong", "TestShort"}) ||
		!slices.Equal(packages, []string{"./a", "./b"}) {
		t.Errorf("got tests %v of packages %v, %v", names, packages, err)
	}
}

// TestReport: the report has the output of failed tests, but only the last line of packages that pass. Skipped tests are at its end, by reason.
// A promise of the list is missing if no test printed its figure.
func TestReport(t *testing.T) {
	var out strings.Builder
	r := newReport(&out)
	if err := r.read(strings.NewReader(events)); err != nil {
		t.Fatal(err)
	}
	r.skips()
	const want = `ok  	latentbeam/a	(cached)
    b_test.go:3: 2, want 3
    --- FAIL: TestBad/one (0.00s)
FAIL
FAIL	latentbeam/b	0.100s
c/c.go:1: undefined: x
panic: test timed out

skipped, and why:
  NOT TESTED: hosts of their own: a TestGood
  make check runs it: kills processes: a TestLong
`
	if out.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", out.String(), want)
	}
	const promises = "# P5 and\n| P1 | kill -9 |\n| P3 | poison |\n| P12 | secrets |\n\n| P1 | `pipelines` TestPromiseP1 | P9 |\n"
	if missing := r.missing(promises); !slices.Equal(missing, []string{"P1", "P12"}) {
		t.Errorf("got missing promises %v, want P1 and P12", missing)
	}
}
