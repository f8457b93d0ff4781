package python_test

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"latentbeam/internal/system/testaid"
)

// tool is the interpreter that runs the tests: LATENTBEAM_PYTHON, else python3.
func tool(t *testing.T) string {
	t.Helper()
	name := cmp.Or(os.Getenv("LATENTBEAM_PYTHON"), "python3")
	testaid.Needs(t, name)
	return name
}

// TestPackages runs the tests of both packages and of the notebooks with a program of this tree, and logs what they skip.
func TestPackages(t *testing.T) {
	testaid.Long(t, "it starts Python and runs a dozen jobs")
	python := tool(t)
	program := filepath.Join(t.TempDir(), "latentbeam")
	if out, err := exec.Command("go", "build", "-o", program, "../cmd/latentbeam").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	exports := t.TempDir()
	readers := exec.Command("go", "test", "-count", "1", "-run", "TestReaders", "../internal/results/export")
	readers.Env = append(os.Environ(), "READERS="+exports)
	if out, err := readers.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, tests := range []string{"latentbeam/tests", "latentbeam-stage/tests"} {
		t.Run(filepath.Dir(tests), func(t *testing.T) {
			cmd := exec.Command(python, "-W", "ignore", "-m", "unittest", "discover", "-v", "-s", tests)
			modules := "latentbeam/src" + string(os.PathListSeparator) + "latentbeam-stage/src"
			cmd.Env = append(os.Environ(), "LATENTBEAM_BINARY="+program, "READERS="+exports, "PYTHONPATH="+modules,
				"PYTHONDONTWRITEBYTECODE=1")
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			said := string(out)
			if ran := regexp.MustCompile(`Ran (\d+) tests`).FindStringSubmatch(said); ran == nil || ran[1] == "0" {
				t.Errorf("no test ran:\n%s", said)
			}
			skipped := regexp.MustCompile(`skipped ['"](.*)['"]\n`).FindAllStringSubmatch(said, -1)
			for _, s := range skipped {
				t.Log("NOT TESTED: " + strings.TrimPrefix(s[1], "NOT TESTED: "))
			}
		})
	}
}

// TestTypes: the package is typed throughout, and uses nothing that Python 3.10 lacks.
func TestTypes(t *testing.T) {
	testaid.Long(t, "mypy reads PyTorch's types")
	python := tool(t)
	for _, check := range [][]string{
		{"mypy", "--strict", "-p", "latentbeam"},
		{"vermin", "-t=3.10-", "--eval-annotations", "--no-tips", "--violations", "latentbeam/src", "latentbeam-stage/src"},
	} {
		t.Run(check[0], func(t *testing.T) {
			if err := exec.Command(python, "-c", "import "+check[0]).Run(); err != nil {
				t.Skipf("NOT TESTED: %s: %s has none (pip install %[1]s)", check[0], python)
			}
			cmd := exec.Command(python, append([]string{"-m"}, check...)...)
			if check[0] == "vermin" { // it has no __main__
				cmd = exec.Command(python, append([]string{"-c", "import vermin; vermin.main()"}, check[1:]...)...)
			}
			cmd.Env = append(os.Environ(), "MYPYPATH=latentbeam/src")
			if check[0] == "mypy" {
				cmd.Args = append(cmd.Args, "--config-file", "latentbeam/pyproject.toml", "--cache-dir", t.TempDir())
			}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
